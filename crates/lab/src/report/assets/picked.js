// What is known of the slice that was picked; and the page of a timeline, put together.
var MOST_LISTED = 60;
function pickButton(parent, one, words) {
  return button(parent, words, "Pick it", function () { state.pick = one.id; changed(); });
}
// Picks a request, and shows it in the middle of a range three times as long.
function showRequest(one) {
  var wide = Math.max(1000, one.to - one.from);
  state.pick = one.id;
  state.range = [Math.max(0, one.from - wide), Math.min(most, one.to + wide)];
  state.zoom = state.range[0] > 0 || state.range[1] < most;
  if (!state.zoom) state.range = null;
  changed();
}
function pickedPanel() {
  var s = section("picked", "What was picked", "what it waited for, or who waited for it."), shown = null;
  var words = make("p", "", s), keys = make("div", "keys", s), bars = make("div", "hbars", s), scroll = make("div", "scroll", s);
  words.id = "picked-words";
  function related(one) { return one.id[0] === "o" ? waitersOf(one) : one.waited.map(function (at) { return operations[at]; }).filter(Boolean); }
  var csv = button(s.tools, "CSV", "Copy all of the list as CSV", function (b) {
    copied(b, "track,start_ns,end_ns,name,cause\n" + related(shown).map(function (one) {
      return [one.row.name, one.from + along.zero, one.to + along.zero, one.name, one.cause].join(",") + "\n";
    }).join(""), "text/csv", "picked.csv");
  });
  // Requests in the order in which they began.
  var order = requests.slice().sort(function (a, b) { return a.from - b.from || a.number - b.number; });
  function beside(by) { var at = order.indexOf(shown) + by; if (order[at]) { state.pick = order[at].id; changed(); } }
  var earlier = button(s.tools, "Earlier", "The request that began before it", function () { beside(-1); });
  var later = button(s.tools, "Later", "The request that began after it", function () { beside(1); });
  function list(one) {
    var all = related(one), table = make("table", "", scroll), head = make("tr", "", make("thead", "", table)), body = make("tbody", "", table);
    var ofRequests = one.id[0] === "o";
    (ofRequests ? ["waited for it", "began", "took", "waited for"] : ["operation", "die", "began", "took", "block", "page", "pages", "ordered by request"]).forEach(function (w) { make("th", "", head, w); });
    all.sort(function (a, b) { return a.from - b.from; }).slice(0, MOST_LISTED).forEach(function (other) {
      var row = make("tr", "", body), name = make("th", "", row);
      pickButton(name, other, ofRequests ? titleOf(other) : other.name);
      var by = ofRequests ? [moment(other.from, 1000), say.time(other.latency || other.to - other.from), many(other.waited.length, "operation")]
        : [other.row.label, moment(other.from, 1000), say.time(other.to - other.from), other.block, other.page, other.pages, other.request || "–"];
      by.forEach(function (v) { make("td", "", row, String(v)); });
    });
    if (all.length > MOST_LISTED) make("td", "text", make("tr", "", body), "and " + (all.length - MOST_LISTED) + " more").colSpan = 8;
    scroll.hidden = !all.length;
    page.shade(scroll);
  }
  watchers.push(function (whole) { if (whole) s.hidden = !byId[state.pick]; });
  watch(s, function (whole) {
    var one = byId[state.pick];
    if (!whole || !one) return;
    shown = one;
    words.textContent = keys.textContent = bars.textContent = scroll.textContent = "";
    make("b", "", words, titleOf(one));
    var more = one.id[0] === "r" ? (one.bytes ? " at byte " + one.offset : "") + ", application " + one.app + ", in " + one.row.name
      : one.id[0] === "v" ? ", " + one.valid + " valid slots when it was chosen"
      : ", block " + one.block + ", page " + one.page + ", " + many(one.pages, "page");
    words.appendChild(document.createTextNode(more + "; " + moment(one.from, 1000) + " to " + moment(one.to, 1000) + ", took " +
      say.time(one.id[0] === "r" ? one.latency : one.to - one.from) + (one.id[0] === "r" ? " from its arrival" : "")));
    var by = one.id[0] === "o" && one.request ? byId["r" + one.request] : null;
    if (by) pickButton(words, by, "ordered by request " + by.number);
    else if (one.request) words.appendChild(document.createTextNode(", ordered by request " + one.request + ", which is not in the window"));
    button(words, "Zoom to it", "The axis spans it", function () { showRequest(one); });
    bars.hidden = one.id[0] !== "r";
    if (!bars.hidden) {
      spentKeys(keys, function (c) { return one.parts[c] > 0; });
      spentRow(bars, one.latency, one.latency, function (c) { return one.parts[c]; }, "").textContent = "time by cause";
      SPENT.filter(function (c) { return one.parts[c[0]] > 0; }).forEach(function (c) { make("small", "", bars, c[1] + " " + one.parts[c[0]] + " ns. "); });
    }
    earlier.hidden = later.hidden = bars.hidden;
    csv.hidden = !related(one).length;
    list(one);
  });
}
function timelineBar() {
  var s = make("div", "bar-top", document.getElementById("panels")), words = make("span", "said", s), fold = make("details", "", s);
  rangeTools(s, "Whole window");
  make("summary", "", fold, "Keys");
  make("p", "hint", fold, RANGE_HINT);
  watchers.push(function () {
    var r = state.range;
    words.textContent = r ? along.words(r[0], r[1]) + ": " + say.time(r[1] - r[0]) : "the whole window: " + say.time(most);
  });
}
// Each of the slowest leads to where it is drawn.
function slowestLeads() {
  var table = document.getElementById("slowest");
  if (!table) return;
  Array.prototype.forEach.call(table.tBodies[0].rows, function (row) {
    var one = byId["r" + row.dataset.request], name = row.cells[0], words = name.textContent;
    if (!one) return;
    name.textContent = "";
    button(name, words, "Show it", function () {
      showRequest(one);
      document.getElementById("panel-timeline").scrollIntoView();
    }).setAttribute("aria-label", "Show request " + words);
    watchers.push(function () { row.classList.toggle("picked", state.pick === one.id); });
  });
}
readTimeline();
if (rows.length) {
  run.windows = most;
  runs = [run];
  restore();
  timelineBar();
  rowsPanel();
  pickedPanel();
  levelsPanel();
  slowestLeads();
  changed();
  redrawn();
}
