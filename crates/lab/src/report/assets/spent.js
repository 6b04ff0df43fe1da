// Where the time of requests went: causes, their words and hues, and a row that shows the parts of a latency.
var SPENT = [["gc", "behind cleaning", "gc"], ["erase", "behind erases", "c4"], ["host_program", "behind programs of host data", "host"],
  ["host_read", "behind reads of others", "c0"], ["map", "pages of the map", "map"], ["metadata", "records of the drive", "metadata"],
  ["bus", "for a channel", "c5"], ["queue", "in the host's queue", "c7"], ["firmware", "firmware", "c3"], ["link", "link", "c6"],
  ["dram", "buffer memory", "padding"], ["own", "own flash operations", "c2"], ["other", "other", "faint"]];
function choice(parent, name, options, value, act) {
  var label = make("label", "choice", parent, name + " "), s = make("select", "", label);
  options.forEach(function (o) { var at = make("option", "", s, o[1]); at.value = o[0]; });
  s.value = String(value);
  s.addEventListener("change", function () { act(s.value); });
  return s;
}
function hueOf(cause) {
  var found = SPENT.filter(function (c) { return c[0] === cause; })[0];
  return found ? found[2] : "faint";
}
// The keys of the causes that are used.
function spentKeys(keys, used) {
  SPENT.filter(function (c) { return used(c[0]); }).forEach(function (c) {
    var key = make("span", "", keys);
    make("i", "", key).style.background = "var(--" + c[2] + ")";
    key.appendChild(document.createTextNode(c[1]));
  });
}
// A bar of the parts of a latency, as long as it is of the longest; the place for its name.
function spentRow(rows, total, high, part, unknown) {
  var row = make("div", "hbar", rows), name = make("span", "name", row), track = make("div", "track", row), most = null;
  SPENT.forEach(function (c) {
    var ns = part(c[0]);
    if (!(ns > 0)) return;
    if (!most || ns > most[1]) most = [c[1], ns];
    var at = make("span", "", track);
    at.style.width = 100 * ns / high + "%";
    at.style.background = "var(--" + c[2] + ")";
    at.title = c[1] + " " + say.time(ns);
  });
  make("span", "value", row, total ? say.time(total) : "–");
  make("small", "", row, most ? digits(100 * most[1] / total, 2) + " % " + most[0] : unknown);
  return name;
}
