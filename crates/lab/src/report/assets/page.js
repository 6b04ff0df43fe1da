// The page as a whole: which runs are shown, the range, links from the answers, sorted tables.
function bar() {
  var s = make("div", "bar-top", document.getElementById("panels")), fold = make("details", "", s), summary = make("summary", "", fold);
  var list = make("div", "runs", fold), said = make("span", "said", s);
  rangeTools(s, "Whole run");
  make("p", "hint", fold, RANGE_HINT);
  var boxes = runs.map(function (run) {
    var label = make("label", "run", list), box = make("input", "", label);
    box.type = "checkbox";
    swatch(run, label);
    label.appendChild(document.createTextNode(run.label));
    box.addEventListener("change", function () {
      var on = state.runs.filter(function (at) { return at !== run.at; });
      if (box.checked) on.push(run.at);
      state.runs = on.length ? on.sort(function (x, y) { return x - y; }) : [run.at];
      changed();
    });
    return box;
  });
  if (runs.length > 1) button(list, "All", "Show every run", function () { state.runs = runs.map(function (run) { return run.at; }); changed(); });
  watchers.push(function () {
    summary.textContent = state.runs.length === runs.length && runs.length === 1 ? "1 run" : state.runs.length + " of " + runs.length + " runs";
    boxes.forEach(function (box, i) { box.checked = state.runs.indexOf(i) >= 0; });
    var r = state.range, run = shown()[0];
    said.textContent = r ? "requests " + say.count(r[0]) + " to " + say.count(r[1]) : "the whole run: " + say.count(most) + " requests";
    if (r && run && run.columns.time_ns && shown().length === 1) {
      var w = windowsIn(run, r);
      said.textContent += ", " + say.time(timeOf(run, w[0])[0]) + " to " + say.time(timeOf(run, w[1] - 1)[1]);
    }
  });
}
// Each answer leads to the panel that shows it: those runs, that window.
function answers() {
  document.querySelectorAll("#brief li").forEach(function (li) {
    var panel = document.getElementById("panel-" + li.dataset.panel);
    var causes = document.getElementById("panel-causes"), of = li.dataset.panel;
    if ((of === "read" || of === "write") && causes) panel = causes;
    if (!panel) return;
    var b = button(li, "Show", "The panel that shows it", function () {
      var run = runs.filter(function (run) { return run.group === +li.dataset.group; })[0];
      if (run && li.dataset.window !== undefined) {
        var w = +li.dataset.window;
        state.range = [Math.max(0, w - 2) * run.per, Math.min(most, (w + 3) * run.per)];
        state.zoom = false;
        state.at = (w + 0.5) * run.per;
      }
      if (run && state.runs.indexOf(run.at) < 0) state.runs.push(run.at);
      state.panel = panel.id.slice(6);
      changed();
      panel.scrollIntoView();
    });
    b.setAttribute("aria-label", "Show: " + li.querySelector("span").textContent);
  });
}
// Timelines of the only run open at the range that is chosen here, as far as it is theirs.
function besideLeads() {
  document.querySelectorAll("#beside a").forEach(function (a) {
    var from = +a.dataset.from, to = +a.dataset.to, plain = a.getAttribute("href");
    watchers.push(function () {
      var r = state.range, run = runs[0], part = null;
      if (r && runs.length === 1 && run.columns.time_ns) {
        var w = windowsIn(run, r);
        part = [Math.max(from, timeOf(run, w[0])[0]), Math.min(to, timeOf(run, w[1] - 1)[1])];
      }
      a.setAttribute("href", part && part[0] < part[1] ? plain + "#range=" + (part[0] - from) + "-" + (part[1] - from) + "&zoom=1" : plain);
    });
  });
}
function sorting() {
  var table = document.getElementById("summary");
  if (!table) return;
  var heads = table.tHead.rows[0].cells, body = table.tBodies[0], usual = Array.prototype.slice.call(body.rows);
  function value(row, c) { var cell = row.cells[c]; return c ? (cell.dataset.v === undefined ? Infinity : +cell.dataset.v) : cell.textContent; }
  function sort(c, down) {
    var rows = usual.slice();
    if (c !== null) rows.sort(function (x, y) { var a = value(x, c), b = value(y, c); return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1); });
    rows.forEach(function (row) { body.appendChild(row); });
    Array.prototype.forEach.call(heads, function (h, i) {
      if (i === c) h.setAttribute("aria-sort", down ? "descending" : "ascending"); else h.removeAttribute("aria-sort");
    });
  }
  Array.prototype.forEach.call(heads, function (h, c) {
    var words = h.textContent;
    h.textContent = "";
    button(h, words, "Sort", function () {
      var at = state.sort === c + "a" ? c + "d" : state.sort === c + "d" ? "" : c + "a";
      state.sort = at;
      changed(true);
    });
  });
  // Colour and stroke of each group.
  usual.forEach(function (row) {
    var run = runs.filter(function (run) { return run.group === +row.dataset.group; })[0];
    if (run) row.cells[0].insertBefore(swatch(run, row.cells[0]), row.cells[0].firstChild);
  });
  watchers.push(function () {
    var m = /^(\d+)([ad])$/.exec(state.sort), key = m ? state.sort : "";
    if (table.dataset.sorted === key) return;
    table.dataset.sorted = key;
    sort(m && heads[+m[1]] ? +m[1] : null, m && m[2] === "d");
  });
}
runs = read();
runs.forEach(function (run) { most = Math.max(most, run.windows * run.per); });
if (runs.length) {
  restore();
  bar();
  causesPanel();
  PANELS.forEach(addPanel);
  tailPanel();
  mapPanel();
  pairPanel();
  answers();
  besideLeads();
  sorting();
  changed();
  if (state.panel) requestAnimationFrame(function () {
    requestAnimationFrame(function () {
      var to = document.getElementById("panel-" + state.panel);
      if (to) to.scrollIntoView();
    });
  });
  redrawn();
}
