"use strict";
/* Draws a picture, one or several panels, with a legend of real buttons. */
var fedkfDraw = (function () {
  var config = { displayModeBar: false, responsive: true };
  var SHAPES = {
    circle: "M7 5a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z", diamond: "M11 0.5 15.5 5 11 9.5 6.5 5Z",
    square: "M7.5 1.5h7v7h-7Z", "triangle-up": "M11 1 15.5 9h-9Z", x: "M7 1 15 9M15 1 7 9",
    star: "M11 0.5l1.4 3h3.2l-2.5 2 1 3.4-3.1-2-3.1 2 1-3.4-2.5-2h3.2Z",
    pentagon: "M11 1 15.5 4.3 13.8 9H8.2L6.5 4.3Z", cross: "M11 1v8M7 5h8"
  };

  function frame(layout) {
    return Object.assign({
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      margin: { l: 62, r: 12, t: 10, b: 40 }, hovermode: "closest", dragmode: false,
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
    var hidden = place.hiddenNames || (place.hiddenNames = Object.create(null));
    var seen = {};
    var buttons = document.createDocumentFragment();
    charts.forEach(function (chart) {
      chart.data.forEach(function (trace) {
        if (Object.prototype.hasOwnProperty.call(seen, trace.name)) { return; }
        seen[trace.name] = true;
        if (!(trace.name in hidden)) { hidden[trace.name] = trace.visible !== true; }
        var button = document.createElement("button");
        button.type = "button";
        button.setAttribute("aria-pressed", String(!hidden[trace.name]));
        button.appendChild(swatch(trace));
        button.appendChild(document.createTextNode(words(trace.name)));
        button.addEventListener("click", function () {
          hidden[trace.name] = !hidden[trace.name];
          button.setAttribute("aria-pressed", String(!hidden[trace.name]));
          toggle(panels, trace.name, !hidden[trace.name]);
        });
        buttons.appendChild(button);
      });
    });
    var names = Object.keys(seen).join("\n");
    if (place.names !== names) { /* keep the buttons, and the focus, while only numbers change */
      place.replaceChildren(buttons);
      place.names = names;
    }
    place.hidden = Object.keys(seen).length < 2;
    charts.forEach(function (chart) {
      chart.data.forEach(function (trace) {
        trace.visible = hidden[trace.name] ? "legendonly" : true;
      });
    });
  }

  function draw(figure, charts) { /* draws anew, or changes what is drawn */
    var panels = Array.from(figure.querySelectorAll(".plot"));
    legend(figure.querySelector(".legend"), charts, panels);
    panels.forEach(function (plot, index) {
      var chart = charts[index];
      plot.classList.toggle("tall", (chart.layout.yaxis.ticktext || []).length > 14);
      plot.setAttribute("aria-label", chart.description);
      Plotly.react(plot, chart.data, frame(chart.layout), config);
    });
    return panels;
  }
  return draw;
})();
