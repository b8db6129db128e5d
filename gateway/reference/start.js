"use strict";
// In a file of its own: the Content-Security-Policy allows no script within the page.
window.SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#routes",
  deepLinking: true,
  validatorUrl: null,
});
