// The words of the login form, why the last try was refused, and where to go afterwards.

import english from "./i18n/reasons.en.js";
import portuguese from "./i18n/reasons.pt-BR.js";

const words = {
  en: {
    reasons: english,
    label: "Token",
    submit: "Log in",
    provider: "Log in with",
    hint:
      "On the machine of the mesh, `ytcaption token link` prints a link that logs this browser in.",
    token: "This token is not valid.",
    link: "This link is not valid any more. It works once, within ten minutes.",
  },
  "pt-BR": {
    reasons: portuguese,
    label: "Token",
    submit: "Entrar",
    provider: "Entrar com",
    hint:
      "Na máquina do serviço, `ytcaption token link` mostra um link que autentica este navegador.",
    token: "Este token não é válido.",
    link: "Este link não é mais válido. Ele funciona uma vez, dentro de dez minutos.",
  },
};

const language = navigator.language.toLowerCase().startsWith("pt") ? "pt-BR" : "en";
const said = words[language];
document.documentElement.lang = language;
for (const element of document.querySelectorAll("[data-text]")) {
  element.textContent = said[element.dataset.text];
}

const given = new URLSearchParams(location.search);
const next = given.get("next") ?? "";
document.getElementById("next").value = next;
const provider = document.getElementById("provider");
if (provider) {
  provider.textContent = `${said.provider} ${provider.dataset.name}`;
  if (next) provider.search = new URLSearchParams({ next });
}

const refused = given.get("refused");
if (refused === "token" || refused === "link") show(said[refused]);
else if (refused) show((said.reasons[refused] ?? said.reasons.INTERNAL).join(" "));

function show(why) {
  document.getElementById("refused").textContent = why;
}
