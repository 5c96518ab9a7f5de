"use strict";
/* Follows the runs: asks once a second what changed, and for details of the selected runs only.
   Whatever comes from the disk enters the page as text, never as markup. */
(function () {
  var ORDER = ["running", "silent", "failed", "stopped", "finished"];
  var MOST = 8, EVERY = 1000;
  var rows = new Map();          /* name → what the server says */
  var lines = new Map();         /* name → its table row */
  var chosen = [];
  var seenDetails = "", version = 0, sortKey = "state", descending = false, first = true;
  var body = document.querySelector("#runs tbody");
  var find = document.getElementById("find"), which = document.getElementById("which");
  var state = document.getElementById("state"), empty = document.getElementById("empty");
  var heads = Array.from(document.querySelectorAll("#runs thead th"));
  var report = document.getElementById("report"), hint = document.getElementById("hint");

  function element(tag, text, name) {
    var made = document.createElement(tag);
    if (text !== undefined) { made.textContent = text; }
    if (name) { made.className = name; }
    return made;
  }
  function number(value, head, about) { /* a metric as the head of its column says */
    if (value === null) { return "–"; }
    if (head.dataset.percent === "true" && !about.percent) { return value.toPrecision(4); }
    return head.dataset.percent === "true" ? (100 * value).toFixed(head.dataset.digits) + "\u00a0%" :
      value.toFixed(head.dataset.digits);
  }
  function span(seconds) {
    if (seconds === null) { return "–"; }
    if (seconds < 90) { return Math.round(seconds) + "\u00a0s"; }
    if (seconds < 5400) { return Math.round(seconds / 60) + "\u00a0min"; }
    if (seconds < 172800) { return (seconds / 3600).toFixed(1) + "\u00a0h"; }
    return Math.round(seconds / 86400) + "\u00a0days";
  }
  function ago(time) { return time ? span(Math.max(0, Date.now() / 1000 - time)) + " ago" : "–"; }

  /* -- the list ---------------------------------------------------------------------------- */

  function line(name) {
    var row = element("tr"), box = element("input");
    box.type = "checkbox";
    box.setAttribute("aria-label", "select " + name);
    box.addEventListener("change", function () { choose(name, box.checked); });
    var cell = element("td");
    cell.appendChild(box);
    row.appendChild(cell);
    var head = element("th", name);
    head.scope = "row";
    head.title = name;
    row.appendChild(head);
    while (row.cells.length < heads.length) { row.appendChild(element("td")); }
    var bar = element("progress");
    bar.setAttribute("aria-label", "rounds of " + name);
    row.cells[4].append(bar, element("span"));
    row.cells[3].appendChild(element("span"));
    return row;
  }

  function fill(row, about) {
    var cells = row.cells, label = cells[3].firstChild;
    cells[2].textContent = about.algorithm || "–";
    label.textContent = about.state === "silent" ? "no sign of life" : about.state;
    label.className = "state " + (/^[a-z]+$/.test(about.state) ? about.state : "");
    label.title = about.reason;
    cells[4].firstChild.max = Math.max(1, about.rounds);
    cells[4].firstChild.value = about.round;
    cells[4].lastChild.textContent = about.round + "/" + about.rounds;
    cells[5].textContent = span(about.left);
    heads.forEach(function (head, place) {
      if (head.dataset.metric) {
        cells[place].textContent = number(about.metrics[head.dataset.metric], head, about);
        cells[place].title = about.over ? "over the sites\u2019 " + about.over : "";
      }
    });
    row.lastChild.textContent = ago(about.updated);
  }

  function value(about) {
    if (sortKey === "state") { return (ORDER.indexOf(about.state) + 1) || 9; }
    if (sortKey === "share") { return about.rounds ? about.round / about.rounds : 0; }
    return sortKey.split(".").reduce(function (part, key) { return part[key]; }, about);
  }

  function arrange() {
    var text = find.value.toLowerCase(), only = which.value;
    var shown = Array.from(rows.values()).filter(function (about) {
      return (!only || about.state === only) &&
        (!text || (about.name + " " + about.algorithm).toLowerCase().indexOf(text) >= 0);
    });
    shown.sort(function (a, b) {
      var x = value(a), y = value(b);
      if (x === null || y === null) { return (x === null) - (y === null); }
      var order = x < y ? -1 : x > y ? 1 : a.name < b.name ? -1 : 1;
      return descending && x !== y ? -order : order;
    });
    var wanted = shown.map(function (about) { return lines.get(about.name); });
    var same = wanted.length === body.rows.length &&
      wanted.every(function (row, index) { return body.rows[index] === row; });
    if (!same) { body.replaceChildren.apply(body, wanted); }
    empty.hidden = shown.length > 0;
    empty.textContent = rows.size ? "No run fits what you look for." :
      "There is no run here yet. One that starts will appear by itself.";
  }

  function tell() {
    var counts = {};
    rows.forEach(function (about) { counts[about.state] = (counts[about.state] || 0) + 1; });
    var parts = Object.keys(counts).sort().map(function (name) {
      return counts[name] + " " + (name === "silent" ? "without sign of life" : name);
    });
    var text = rows.size + (rows.size === 1 ? " run" : " runs") +
      (parts.length ? ": " + parts.join(", ") : "");
    if (state.textContent !== text) { state.textContent = text; }
    state.className = "";
  }

  function take(answer) {
    version = answer.version;
    if (answer.names) {
      var known = new Set(answer.names);
      Array.from(rows.keys()).forEach(function (name) {
        if (!known.has(name)) { rows.delete(name); lines.delete(name); }
      });
      chosen = chosen.filter(function (name) { return known.has(name); });
    }
    answer.rows.forEach(function (about) {
      rows.set(about.name, about);
      if (!lines.has(about.name)) { lines.set(about.name, line(about.name)); }
      fill(lines.get(about.name), about);
    });
    rows.forEach(function (about, name) {
      if (about.state === "running") { lines.get(name).lastChild.textContent = ago(about.updated); }
    });
    if (first && rows.size) {
      first = false;
      var all = Array.from(rows.values()).sort(function (a, b) { return b.updated - a.updated; });
      var running = all.filter(function (about) { return about.state === "running"; });
      (running.length ? running : all).slice(0, 3).forEach(function (about) {
        chosen.push(about.name);
      });
    }
    arrange();
    tell();
    mark();
  }

  function choose(name, on) {
    first = false;
    chosen = chosen.filter(function (other) { return other !== name; });
    if (on) { chosen.push(name); }
    if (chosen.length > MOST) { chosen.shift(); }
    mark();
    look();
  }

  function mark() {
    lines.forEach(function (row, name) {
      var on = chosen.indexOf(name) >= 0;
      row.classList.toggle("chosen", on);
      row.cells[0].firstChild.checked = on;
    });
    report.hidden = hint.hidden = false;
    if (chosen.length) {
      hint.hidden = true;
      report.href = "/report?" + query();
    } else {
      report.hidden = true;
    }
  }

  function query() {
    return chosen.map(function (name) { return "run=" + encodeURIComponent(name); }).join("&");
  }

  /* -- the selected runs ------------------------------------------------------------------- */

  function look() {
    var wanted = chosen.map(function (name) {
      return name + "\n" + (rows.get(name) || {}).version;
    }).join("\n");
    if (wanted === seenDetails || !window.Plotly) { return Promise.resolve(); }
    if (!chosen.length) { seenDetails = wanted; show({ charts: {}, runs: [] }); return Promise.resolve(); }
    return fetch("/api/compare?" + query()).then(function (answer) {
      if (answer.status === 404) { return null; } /* gone in between; the list will say so */
      if (!answer.ok) { throw new Error(answer.status); }
      return answer.json();
    }).then(function (content) {
      if (content) { seenDetails = wanted; show(content); }
    });
  }

  function show(content) {
    document.querySelectorAll("figure.picture").forEach(function (figure) {
      var charts = content.charts[figure.dataset.kind];
      figure.hidden = !charts;
      if (!charts) { return; }
      var panels = figure.querySelector(".panels");
      while (panels.children.length > charts.length) {
        Plotly.purge(panels.lastChild.querySelector(".plot"));
        panels.lastChild.remove();
      }
      while (panels.children.length < charts.length) {
        var panel = element("div", undefined, "panel"), plot = element("div", undefined, "plot");
        plot.setAttribute("role", "img");
        panel.append(element("h3"), plot);
        panels.appendChild(panel);
      }
      charts.forEach(function (chart, index) {
        var heading = panels.children[index].querySelector("h3");
        heading.textContent = chart.title;
        heading.hidden = charts.length < 2;
      });
      fedkfDraw(figure, charts);
    });
    var about = document.getElementById("about");
    about.replaceChildren.apply(about, content.runs.map(card));
  }

  function card(run) {
    var made = element("div");
    made.appendChild(element("h2", run.label));
    run.notes.forEach(function (note) { made.appendChild(element("p", "Note: " + note + ".")); });
    made.appendChild(element("p", run.active.length ?
      "Active now: " + run.active.join(", ") + "." : "No site is active now."));
    if (!run.refused.length) {
      made.appendChild(element("p", "No upload was refused."));
    } else {
      made.appendChild(element("p", "Refused uploads:"));
      var list = element("ul");
      run.refused.forEach(function (item) {
        list.appendChild(element("li", item.site + ", " + item.count + " times: " + item.reason));
      });
      made.appendChild(list);
    }
    return made;
  }

  /* -- going on for ever --------------------------------------------------------------------- */

  function ask() {
    return fetch("/api/runs?since=" + version).then(function (answer) {
      if (!answer.ok) { throw new Error(answer.status); }
      return answer.json();
    }).then(function (answer) {
      if (answer.version < version) { version = 0; rows.clear(); lines.clear(); return ask(); }
      take(answer);
      return look();
    }).catch(function () {
      state.textContent = "No answer from fedkf dashboard. This page goes on asking.";
      state.className = "lost";
      version = 0; /* a new server counts anew */
    });
  }
  function again() { ask().then(function () { setTimeout(again, EVERY); }); }

  document.querySelectorAll("#runs th[data-key]").forEach(function (head) {
    head.querySelector("button").addEventListener("click", function () {
      var key = head.dataset.key;
      descending = key === sortKey ? !descending : ["name", "algorithm", "state"].indexOf(key) < 0;
      sortKey = key;
      document.querySelectorAll("#runs th[data-key]").forEach(function (other) {
        other.removeAttribute("aria-sort");
      });
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      arrange();
    });
  });
  find.addEventListener("input", arrange);
  which.addEventListener("change", arrange);
  document.getElementById("none").addEventListener("click", function () {
    first = false; chosen = []; mark(); look();
  });
  document.getElementById("plotly").addEventListener("load", look);
  again();
})();
