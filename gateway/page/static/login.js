// The words of the login form, and why the last try was refused.

const words = {
  en: {
    label: "Token",
    submit: "Log in",
    hint:
      "On the machine of the mesh, `ytcaption token link` prints a link that logs this browser in.",
    token: "This token is not valid.",
    link: "This link is not valid any more. It works once, within ten minutes.",
  },
  "pt-BR": {
    label: "Token",
    submit: "Entrar",
    hint:
      "Na máquina do serviço, `ytcaption token link` mostra um link que autentica este navegador.",
    token: "Este token não é válido.",
    link: "Este link não é mais válido. Ele funciona uma vez, dentro de dez minutos.",
  },
};

const language = navigator.language.toLowerCase().startsWith("pt") ? "pt-BR" : "en";
document.documentElement.lang = language;
for (const element of document.querySelectorAll("[data-text]")) {
  element.textContent = words[language][element.dataset.text];
}
const refused = new URLSearchParams(location.search).get("refused");
if (refused === "token" || refused === "link") {
  document.getElementById("refused").textContent = words[language][refused];
}
