(function () {
  "use strict";
  var root = document.documentElement, tip = document.getElementById("tip");
  var theme = document.querySelector(".theme");
  theme.hidden = false;
  theme.addEventListener("click", function () {
    var dark = root.dataset.theme ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  document.querySelectorAll(".legend button").forEach(function (b) {
    b.addEventListener("click", function () {
      var on = b.getAttribute("aria-pressed") !== "true";
      b.setAttribute("aria-pressed", on);
      document.querySelectorAll(".chart .g" + b.dataset.group).forEach(function (p) {
        p.classList.toggle("off", !on);
      });
    });
  });
  document.querySelectorAll(".copy button").forEach(function (b) {
    b.hidden = false;
    b.addEventListener("click", function () {
      var text = b.parentNode.querySelector("pre").textContent;
      navigator.clipboard.writeText(text).then(function () { b.textContent = "Copied"; });
    });
  });
  function digits(v, n) {
    if (!v) return "0";
    var places = Math.min(9, Math.max(0, n - 1 - Math.floor(Math.log10(Math.abs(v)))));
    return v.toFixed(places);
  }
  function time(ns) {
    var units = [[1e9, " s"], [1e6, " ms"], [1e3, " µs"], [1, " ns"]];
    for (var i = 0; i < 4; i++) if (Math.abs(ns) >= units[i][0]) return digits(ns / units[i][0], 3) + units[i][1];
    return digits(ns, 2) + " ns";
  }
  function count(v) {
    if (Math.abs(v) >= 1e9) return digits(v / 1e9, 3) + " G";
    if (Math.abs(v) >= 1e6) return digits(v / 1e6, 3) + " M";
    if (Math.abs(v) >= 1e4) return digits(v / 1e3, 3) + " k";
    return digits(v, 3);
  }
  function text(kind, v) {
    if (kind === "time") return time(v);
    if (kind === "logtime") return time(Math.pow(10, v));
    if (kind === "percent") return digits(v, 2) + " %";
    if (kind === "nines") return "p" + (100 * (1 - Math.pow(10, -v))).toFixed(v > 3 ? 3 : v > 2 ? 2 : 1);
    return count(v);
  }
  function parse(d) {
    var points = [], re = /[ML](-?[\d.]+) (-?[\d.]+)/g, m;
    while ((m = re.exec(d))) points.push([+m[1], +m[2]]);
    return points;
  }
  function near(points, x) {
    var lo = 0, hi = points.length - 1;
    while (hi - lo > 1) {
      var mid = (lo + hi) >> 1;
      if (points[mid][0] <= x) lo = mid; else hi = mid;
    }
    return Math.abs(points[lo][0] - x) <= Math.abs(points[hi][0] - x) ? points[lo] : points[hi];
  }
  function show(e) {
    tip.style.visibility = "visible";
    var left = e.clientX + 16, top = e.clientY + 14;
    if (left + tip.offsetWidth > innerWidth - 8) left = e.clientX - tip.offsetWidth - 12;
    if (top + tip.offsetHeight > innerHeight - 8) top = e.clientY - tip.offsetHeight - 12;
    tip.style.left = left + "px"; tip.style.top = top + "px";
  }
  // What a link leads to is unfolded.
  function unfold() {
    var to = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var at = to; at; at = at.parentNode) if (at.tagName === "DETAILS") at.open = true;
    if (to) to.scrollIntoView();
  }
  addEventListener("hashchange", unfold);
  unfold();
  // Drawings of tables: each mark has its own text, which a browser would show late.
  document.querySelectorAll(".chart svg [data-tip]").forEach(function (mark) {
    mark.addEventListener("pointermove", function (e) { tip.textContent = mark.dataset.tip; show(e); });
    mark.addEventListener("pointerleave", function () { tip.style.visibility = "hidden"; });
  });
  // Charts over an axis: values are read back from the lines.
  document.querySelectorAll(".chart svg[data-frame]").forEach(function (svg) {
    var f = svg.dataset.frame.split(",").map(Number), xs = svg.dataset.x.split(","), ys = svg.dataset.y.split(",");
    var cross = svg.querySelector(".cross"), lines = null;
    function hide() { tip.style.visibility = cross.style.visibility = "hidden"; }
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("pointermove", function (e) {
      var box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      var x = (e.clientX - box.left) * scale;
      if (x < f[0] - 4 || x > f[2] + 4) return hide();
      lines = lines || Array.prototype.map.call(svg.querySelectorAll(".line"), function (p) {
        return { path: p, points: parse(p.getAttribute("d")) };
      });
      var rows = [];
      lines.forEach(function (l) {
        if (l.path.classList.contains("off") || !l.points.length) return;
        var p = near(l.points, x);
        if (Math.abs(p[0] - x) > 24) return;
        var v = +ys[1] + (f[3] - p[1]) / (f[3] - f[1]) * (ys[2] - ys[1]);
        rows.push([v, l.path.dataset.name, getComputedStyle(l.path).stroke, p[0]]);
      });
      if (!rows.length) return hide();
      rows.sort(function (a, b) { return b[0] - a[0]; });
      var at = rows[0][3];
      cross.setAttribute("x1", at); cross.setAttribute("x2", at);
      cross.setAttribute("y1", f[1]); cross.setAttribute("y2", f[3]);
      cross.style.visibility = "visible";
      tip.textContent = "";
      var head = document.createElement("b");
      head.textContent = text(xs[0], +xs[1] + (at - f[0]) / (f[2] - f[0]) * (xs[2] - xs[1]));
      tip.appendChild(head);
      rows.slice(0, 12).forEach(function (r) {
        var line = document.createElement("span"), left = document.createElement("span"), dot = document.createElement("i");
        dot.style.background = r[2];
        left.style.display = "inline";
        left.appendChild(dot); left.appendChild(document.createTextNode(r[1]));
        line.appendChild(left);
        var value = document.createElement("strong"); value.textContent = text(ys[0], r[0]);
        line.appendChild(value);
        tip.appendChild(line);
      });
      show(e);
    });
  });
})();
