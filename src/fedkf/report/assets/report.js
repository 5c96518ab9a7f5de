"use strict";
/* Draws the report's pictures from the data inside the page, and prepares them for paper. */
(function () {
  var figures = JSON.parse(document.getElementById("figures").textContent);
  var plots = [];
  document.querySelectorAll("figure.picture").forEach(function (figure) {
    plots = plots.concat(fedkfDraw(figure, figures[figure.dataset.kind]));
  });
  window.addEventListener("beforeprint", function () {
    plots.forEach(function (plot) {
      Plotly.relayout(plot, { autosize: false, width: 660, height: 250 });
    });
  });
  window.addEventListener("afterprint", function () {
    plots.forEach(function (plot) {
      Plotly.relayout(plot, { autosize: true, width: null, height: null });
    });
  });
  document.body.dataset.drawn = String(plots.length);
})();
