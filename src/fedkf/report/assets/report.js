"use strict";
/* Draws the report's pictures from the data inside the page, with a legend of real buttons. */
(function () {
  var figures = JSON.parse(document.getElementById("figures").textContent);
  var config = { displayModeBar: false, responsive: true };
  var plots = [];
  var SHAPES = {
    circle: "M7 5a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z", diamond: "M11 0.5 15.5 5 11 9.5 6.5 5Z",
    square: "M7.5 1.5h7v7h-7Z", "triangle-up": "M11 1 15.5 9h-9Z", x: "M7 1 15 9M15 1 7 9",
    star: "M11 0.5l1.4 3h3.2l-2.5 2 1 3.4-3.1-2-3.1 2 1-3.4-2.5-2h3.2Z",
    pentagon: "M11 1 15.5 4.3 13.8 9H8.2L6.5 4.3Z", cross: "M11 1v8M7 5h8"
  };

  function frame(layout) {
    return Object.assign({
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      margin: { l: 48, r: 12, t: 10, b: 40 }, hovermode: "closest", dragmode: false,
      font: { family: "system-ui, sans-serif", size: 12 },
      hoverlabel: { bgcolor: "#22272e", bordercolor: "#22272e", font: { color: "#ffffff" } }
    }, layout);
  }

  function swatch(trace) {
    var space = "http://www.w3.org/2000/svg";
    var svg = document.createElementNS(space, "svg");
    svg.setAttribute("width", "22"); svg.setAttribute("height", "10");
    svg.setAttribute("aria-hidden", "true");
    var colour = (trace.line || trace.marker).color;
    var mark = document.createElementNS(space, trace.line ? "line" : "path");
    if (trace.line) {
      [["x1", 0], ["x2", 22], ["y1", 5], ["y2", 5], ["stroke", colour], ["stroke-width", 3]].forEach(
        function (pair) { mark.setAttribute(pair[0], pair[1]); });
      if (trace.line.dash === "dot") { mark.setAttribute("stroke-dasharray", "3 3"); }
    } else {
      var open = /-open$/.test(trace.marker.symbol || "");
      var shape = SHAPES[(trace.marker.symbol || "").replace("-open", "")] || SHAPES.square;
      [["d", shape], ["stroke", colour], ["stroke-width", 1.5],
        ["fill", open ? "none" : colour]].forEach(
        function (pair) { mark.setAttribute(pair[0], pair[1]); });
    }
    svg.appendChild(mark);
    return svg;
  }

  function words(escaped) { /* names come escaped for plotly; a button wants them as they are */
    return escaped.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
  }

  function toggle(panels, name, shown) {
    panels.forEach(function (plot) {
      plot.data.forEach(function (trace, index) {
        if (trace.name === name) { Plotly.restyle(plot, { visible: shown || "legendonly" }, [index]); }
      });
    });
  }

  function legend(place, charts, panels) {
    var seen = {};
    charts.forEach(function (chart) {
      chart.data.forEach(function (trace) {
        if (Object.prototype.hasOwnProperty.call(seen, trace.name)) { return; }
        seen[trace.name] = true;
        var button = document.createElement("button");
        button.type = "button";
        button.setAttribute("aria-pressed", String(trace.visible === true));
        button.appendChild(swatch(trace));
        button.appendChild(document.createTextNode(words(trace.name)));
        button.addEventListener("click", function () {
          var shown = button.getAttribute("aria-pressed") !== "true";
          button.setAttribute("aria-pressed", String(shown));
          toggle(panels, trace.name, shown);
        });
        place.appendChild(button);
      });
    });
    if (Object.keys(seen).length < 2) { place.hidden = true; }
  }

  document.querySelectorAll("figure.picture").forEach(function (figure) {
    var charts = figures[figure.dataset.kind];
    var panels = Array.from(figure.querySelectorAll(".plot"));
    legend(figure.querySelector(".legend"), charts, panels);
    panels.forEach(function (plot, index) {
      var chart = charts[index];
      var rows = (chart.layout.yaxis.ticktext || []).length;
      if (rows > 14) { plot.classList.add("tall"); }
      Plotly.newPlot(plot, chart.data, frame(chart.layout), config);
      plots.push(plot);
    });
  });

  function resize() { plots.forEach(function (plot) { Plotly.Plots.resize(plot); }); }
  window.addEventListener("beforeprint", function () {
    plots.forEach(function (plot) { Plotly.relayout(plot, { autosize: false, width: 660, height: 250 }); });
  });
  window.addEventListener("afterprint", function () {
    plots.forEach(function (plot) {
      Plotly.relayout(plot, { autosize: true, width: null, height: null });
    });
    resize();
  });
  document.body.dataset.drawn = String(plots.length);
})();
