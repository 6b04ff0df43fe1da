// Panels that are not over the run: where the time went, the tail, the blocks of the drive, two runs side by side.
function causesPanel() {
  function path(op, of, rest) { return "latency_ns." + op + ".by_cause." + of + "." + rest; }
  var picked = { op: "read", of: "p999" }, ops = ["read", "write", "flush"].filter(function (op) {
    return runs.some(function (run) { return run.numbers[path(op, "all", "mean")] > 0; });
  });
  if (!ops.length) return;
  var s = section("causes", "Where the time of slow requests went", "mean latency by cause of the requests from a percentile on; the parts sum to it.");
  choice(s.tools, "of", ops.map(function (op) { return [op, op === "flush" ? "flushes" : op + "s"]; }), "read", function (v) { picked.op = v; changed(); });
  choice(s.tools, "from", [["all", "all"], ["p99", "p99 on"], ["p999", "p99.9 on"]], "p999", function (v) { picked.of = v; changed(); });
  button(s.tools, "CSV", "Copy what is shown as CSV", function (b) {
    copied(b, "run,mean_ns," + SPENT.map(function (c) { return c[0] + "_ns"; }).join(",") + "\n" + shown().map(function (run) {
      return '"' + run.label.replace(/"/g, '""') + '",' + [run.numbers[path(picked.op, picked.of, "mean")]].concat(SPENT.map(function (c) {
        return run.numbers[path(picked.op, picked.of, "causes." + c[0])];
      })).map(function (v) { return v === undefined ? "" : v; }).join(",");
    }).join("\n") + "\n", "text/csv", "causes.csv");
  });
  button(s.tools, "SVG", "Copy what is shown as SVG", function (b) { copied(b, causesSvg(picked, path), "image/svg+xml", "causes.svg"); });
  var keys = make("div", "keys", s), rows = make("div", "hbars", s);
  watch(s, function (whole) {
    if (!whole) return;
    rows.textContent = keys.textContent = "";
    var list = shown(), high = 0;
    list.forEach(function (run) { high = Math.max(high, run.numbers[path(picked.op, picked.of, "mean")] || 0); });
    spentKeys(keys, function (c) {
      return list.some(function (run) { return run.numbers[path(picked.op, picked.of, "causes." + c)] > high / 200; });
    });
    list.forEach(function (run) {
      var mean = run.numbers[path(picked.op, picked.of, "mean")], name = spentRow(rows, mean, high, function (c) {
        return run.numbers[path(picked.op, picked.of, "causes." + c)];
      }, "not known: fewer than ten requests");
      swatch(run, name);
      name.appendChild(document.createTextNode(run.label));
    });
  });
}
function causesSvg(picked, path) {
  var pen = svgPen(), list = shown(), high = 0;
  list.forEach(function (run) { high = Math.max(high, run.numbers[path(picked.op, picked.of, "mean")] || 0); });
  pen.text(10, 20, "Where the time of " + picked.op + "s went, " + picked.of, "start", colour("ink"), true);
  list.forEach(function (run, n) {
    var x = 200, y = 36 + n * 26;
    pen.text(190, y + 13, run.label, "end", colour("ink"));
    SPENT.forEach(function (c) {
      var ns = run.numbers[path(picked.op, picked.of, "causes." + c[0])] || 0, wide = 340 * ns / high;
      if (wide > 0) pen.box(x, y, wide, 18, colour(c[2]));
      x += wide;
    });
    pen.text(x + 6, y + 13, say.time(run.numbers[path(picked.op, picked.of, "mean")]), "start", colour("soft"));
  });
  SPENT.forEach(function (c, n) {
    var x = 10 + n % 3 * 210, y = 56 + list.length * 26 + Math.floor(n / 3) * 18;
    pen.box(x, y - 9, 10, 10, colour(c[2]));
    pen.text(x + 14, y, c[1], "start", colour("soft"));
  });
  return pen.done(640, 150 + list.length * 26);
}
// Quantile by quantile; as for percentiles, none with fewer than ten requests beyond.
function tailOf(op, run) {
  var pairs = histogram(op, run), total = 0, seen = 0, last = -9, out = [];
  pairs.forEach(function (p) { total += p[1]; });
  pairs.some(function (p) {
    seen += p[1];
    if (total - seen < 10) return true;
    var nines = -Math.log10(1 - seen / total);
    if (nines - last >= 0.01) { out.push([nines, p[0]]); last = nines; }
    return false;
  });
  return out;
}
function tailPanel() {
  var OPS = [["read", "c0"], ["write", "c1"], ["flush", "c2"]], known = {}, low = Infinity, high = 0, nines = 0;
  runs.forEach(function (run) {
    known[run.at] = OPS.map(function (o) { return tailOf(o[0], run); });
    known[run.at].forEach(function (points) {
      points.forEach(function (p) { if (p[1] > 0) low = Math.min(low, p[1]); high = Math.max(high, p[1]); nines = Math.max(nines, p[0]); });
    });
  });
  if (!high) return;
  var tall = 130;
  function X(width) { return function (n) { return n / nines * width; }; }
  // What took no time lies on the floor.
  function Y(v) { return high > low ? tall * (1 - Math.log(Math.max(v, low) / low) / Math.log(high / low)) : tall / 2; }
  function draw(pen, run, width) {
    var x = X(width);
    decades(low, high, 5).forEach(function (t) { pen.box(0, Y(t), width, 1, colour("grid")); });
    function line(points, stroke, wide) { pen.line(points.map(function (p) { return [x(p[0]), Y(p[1])]; }), stroke, wide); }
    // The others in the background, so that a lane can be read alone.
    shown().forEach(function (other) { if (other !== run) known[other.at].forEach(function (points) { line(points, colour("rule"), 1); }); });
    OPS.forEach(function (o, i) { line(known[run.at][i], colour(o[1]), 1.8); });
  }
  function named(n) { return n === 0 ? "0" : "p" + (100 * (1 - Math.pow(10, -n))).toFixed(Math.max(0, n - 2)); }
  var s = section("tail", "The tail", "latency that so many requests of a whole run do not exceed; the other runs in grey."), lanes = [];
  var keys = make("div", "keys", s), grid = make("div", "lanes", s);
  OPS.forEach(function (o, i) {
    if (!runs.some(function (run) { return known[run.at][i].length; })) return;
    var key = make("span", "", keys);
    make("i", "", key).style.background = "var(--" + o[1] + ")";
    key.appendChild(document.createTextNode({ read: "reads", write: "writes", flush: "flushes" }[o[0]]));
  });
  button(s.tools, "CSV", "Copy what is shown as CSV", function (b) {
    copied(b, "run,op,share,latency_ns\n" + shown().map(function (run) {
      return OPS.map(function (o, i) {
        return known[run.at][i].map(function (p) { return '"' + run.label.replace(/"/g, '""') + '",' + o[0] + "," + (1 - Math.pow(10, -p[0])) + "," + p[1] + "\n"; }).join("");
      }).join("");
    }).join(""), "text/csv", "tail.csv");
  });
  button(s.tools, "SVG", "Copy what is shown as SVG", function (b) {
    var pen = svgPen(), list = shown();
    list.forEach(function (run, n) {
      var top = 34 + n * (tall + 44);
      pen.text(70, top - 8, run.label, "start", colour("ink"), true);
      pen.at(70, top); draw(pen, run, 500); pen.end();
      decades(low, high, 5).forEach(function (t) { pen.text(64, top + Y(t) + 4, tick(say.time(t)), "end", colour("soft")); });
      for (var k = 0; k <= nines; k++) pen.text(70 + X(500)(k), top + tall + 15, named(k), "middle", colour("soft"));
    });
    copied(b, pen.done(590, 20 + list.length * (tall + 44)), "image/svg+xml", "tail.svg");
  });
  watchers.push(function (whole) { if (whole) room(s, grid, shown().length, tall + 55); });
  watch(s, function (whole) {
    if (!whole) return;
    var list = shown();
    grid.textContent = "";
    lanes = list.map(function (run) {
      var box = make("figure", "lane", grid), head = make("figcaption", "", box), name = make("b", "", head);
      swatch(run, name);
      name.appendChild(document.createTextNode(run.label));
      make("span", "value", head, OPS.map(function (o) {
        var v = run.numbers["latency_ns." + o[0] + ".p999"];
        return v ? o[0] + " p99.9 " + say.time(v) : "";
      }).filter(Boolean).slice(0, 2).join("   "));
      var plot = make("div", "plot", box), left = make("div", "left", plot), field = make("div", "field", plot), canvas = make("canvas", "", field);
      var below = make("div", "below", box);
      return { run: run, left: left, field: field, canvas: canvas, below: below };
    });
    lanes.forEach(function (lane) {
      var width = lane.field.clientWidth;
      if (!width) return;
      lane.canvas.style.height = lane.field.style.height = lane.left.style.height = tall + "px";
      draw(canvasPen(lane.canvas, width, tall), lane.run, width);
      decades(low, high, 5).forEach(function (t) { make("span", "", lane.left, tick(say.time(t))).style.top = Math.max(0, Math.min(tall - 14, Y(t) - 7)) + "px"; });
      for (var k = 0; k <= nines; k++) {
        var words = named(k), half = words.length * 3.6;
        make("span", "", lane.below, words).style.left = Math.max(half, Math.min(width - half, X(width)(k))) + "px";
      }
    });
  });
}
// The blocks of the drive: planes below each other, rows side by side.
function mapPanel() {
  function known(run) { return run.lists["blocks.erases"] || run.lists["wear.histogram"]; }
  if (!runs.some(known)) return;
  var by = "erases", whole = runs.some(function (run) { return run.lists["blocks.erases"]; });
  var s = section("map", "The drive's blocks", whole
    ? "every block: planes of dies below each other, a plane's blocks side by side. The darker, the more."
    : "how many blocks were erased how often.");
  if (runs.some(function (run) { return run.lists["blocks.valid"]; })) {
    choice(s.tools, "colour", [["erases", "erases"], ["valid", "valid data at the end"]], by, function (v) { by = v; changed(); });
  }
  // Moments of the runs: how many requests they were after, the end last.
  var moments = [];
  runs.forEach(function (run) { (run.lists["blocks.frames.requests"] || []).forEach(function (n) { if (moments.indexOf(n) < 0) moments.push(n); }); });
  moments.sort(function (a, b) { return a - b; });
  // Erases of every block at the moment that is chosen, once for each moment; at the end those of the document.
  var frames = {};
  function erasesOf(run) {
    var erases = run.lists["blocks.erases"], at = moments[state.frame], of = run.lists["blocks.frames.requests"];
    if (!erases || !of || at === undefined) return erases;
    var key = run.at + "-" + at;
    return frames[key] || (frames[key] = framed(run, of, at, erases));
  }
  function framed(run, of, at, erases) {
    var all = erases.map(function (n) { return isNaN(n) ? NaN : 0; });
    of.forEach(function (requests, n) {
      if (requests > at) return;
      var pairs = run.lists["blocks.frames.erases." + n] || [], block = 0;
      for (var i = 0; i < pairs.length; i += 2) for (var k = 0; k < pairs[i]; k++) all[block++] += pairs[i + 1];
    });
    return all;
  }
  if (moments.length) {
    var label = make("label", "choice", s.tools, "at "), slide = make("input", "", label), when = make("output", "", label);
    slide.type = "range"; slide.min = 0; slide.max = moments.length; slide.step = 1;
    slide.setAttribute("aria-label", "Moment of the run");
    slide.addEventListener("input", function () { state.frame = +slide.value < moments.length ? +slide.value : ""; changed(); });
    watchers.push(function () {
      var at = moments[state.frame];
      slide.value = String(at === undefined ? moments.length : state.frame);
      // What was valid is known of the end alone.
      slide.disabled = by !== "erases";
      when.textContent = at === undefined || by !== "erases" ? "the end" : at === 0 ? "the start" : say.count(at) + " requests";
    });
  }
  button(s.tools, "CSV", "Copy what is shown as CSV", function (b) {
    copied(b, whole ? "run,block,erases,valid_units\n" + shown().map(function (run) {
      return (erasesOf(run) || []).map(function (n, i) {
        var v = run.lists["blocks.valid"];
        return '"' + run.label.replace(/"/g, '""') + '",' + i + "," + (isNaN(n) ? "bad" : n) + "," + (v && moments[state.frame] === undefined ? v[i] : "") + "\n";
      }).join("");
    }).join("") : "run,erases_from,blocks\n" + shown().map(function (run) {
      return steps(run).map(function (r) { return '"' + run.label + '",' + r[0] + "," + r[2] + "\n"; }).join("");
    }).join(""), "text/csv", "blocks.csv");
  });
  button(s.tools, "SVG", "Copy what is shown as SVG", function (b) {
    var pen = svgPen(), top = 30, list = shown().filter(known);
    list.forEach(function (run) {
      var tall = heightOf(run);
      pen.text(10, top - 8, run.label + ": " + mostWords(run), "start", colour("ink"), true);
      pen.at(10, top); draw(pen, run, 560, tall, by); pen.end();
      top += tall + 34;
    });
    copied(b, pen.done(580, top), "image/svg+xml", "blocks.svg");
  });
  var grid = make("div", "lanes", s);
  function steps(run) {
    var h = run.lists["wear.histogram"] || [], min = run.numbers["wear.min"], range = run.numbers["wear.max"] - min + 1;
    var width = Math.ceil(range / Math.min(range, 16));
    return h.map(function (n, i) { return [min + i * width, min + (i + 1) * width - 1, n]; });
  }
  function place(run, at) {
    var planes = run.numbers["blocks.planes"], plane = at % planes;
    return { plane: plane, row: Math.floor(at / planes), die: Math.floor(plane / (planes / run.numbers["blocks.dies"])) };
  }
  function mostOf(run) {
    var at = -1;
    var erases = erasesOf(run) || [];
    erases.forEach(function (n, i) { if (!isNaN(n) && (at < 0 || n > erases[at])) at = i; });
    return at;
  }
  function mostWords(run) {
    var at = mostOf(run);
    if (at < 0) return "most erased " + say.count(run.numbers["wear.max"]) + ", mean " + say.count(run.numbers["wear.mean"]);
    var p = place(run, at);
    return "most: block " + at + " (die " + p.die + ", row " + p.row + "), " + erasesOf(run)[at] + " erases";
  }
  function heightOf(run) {
    return run.lists["blocks.erases"] ? Math.max(60, Math.min(160, run.numbers["blocks.planes"] * 8)) : 70;
  }
  function draw(pen, run, width, tall, by) {
    var erases = run.lists["blocks.erases"], values = by === "erases" ? erasesOf(run) : run.lists["blocks." + by];
    if (!erases) {
      var all = steps(run), high = Math.max.apply(null, all.map(function (r) { return r[2]; })), wide = width / all.length;
      all.forEach(function (r, i) { pen.box(i * wide + 1, tall * (1 - r[2] / high), wide - 2, tall * r[2] / high, colour("accent")); });
      return;
    }
    if (!values) return;
    var planes = run.numbers["blocks.planes"], rows = Math.ceil(erases.length / planes), w = width / rows, h = tall / planes, top = 0;
    // Of all moments, so that hues mean the same.
    run.lists["blocks." + by].forEach(function (v) { if (v > top) top = v; });
    values.forEach(function (v, i) {
      var gap = w > 4 && h > 4 ? 0.6 : 0, x = Math.floor(i / planes) * w, y = i % planes * h;
      if (isNaN(v)) pen.box(x, y, w - gap, h - gap, colour("c4"));
      else pen.box(x, y, w - gap, h - gap, colour("accent"), 0.06 + 0.94 * (top ? v / top : 0));
    });
    var m = mostOf(run);
    if (by === "erases" && m >= 0) {
      var x = Math.floor(m / planes) * w, y = m % planes * h;
      pen.line([[x, y], [x + w, y], [x + w, y + h], [x, y + h], [x, y]], colour("c1"), 2);
    }
  }
  watchers.push(function (whole) {
    var list = shown().filter(known);
    if (whole) room(s, grid, list.length, list.length ? heightOf(list[0]) + 48 : 0);
  });
  watch(s, function (redraw) {
    if (!redraw) return;
    grid.textContent = "";
    // All lanes first: how wide one is depends on how many there are.
    shown().filter(known).map(function (run) {
      var box = make("figure", "lane", grid), head = make("figcaption", "", box), name = make("b", "", head);
      swatch(run, name);
      name.appendChild(document.createTextNode(run.label));
      var value = make("span", "value", head, mostWords(run)), field = make("div", "field bare", box), canvas = make("canvas", "", field);
      return { run: run, box: box, value: value, field: field, canvas: canvas };
    }).forEach(function (lane) {
      var run = lane.run, box = lane.box, value = lane.value, field = lane.field, canvas = lane.canvas;
      var tall = heightOf(run), width = field.clientWidth, erases = erasesOf(run);
      field.style.height = canvas.style.height = tall + "px";
      field.tabIndex = 0;
      field.setAttribute("role", "img");
      field.setAttribute("aria-label", run.label + ": " + mostWords(run));
      draw(canvasPen(canvas, width, tall), run, width, tall, by);
      var below = make("div", "below", box);
      if (!erases) {
        var all = steps(run);
        [0, all.length - 1].forEach(function (i) { make("span", "", below, all[i][i ? 1 : 0] + " erases").style.left = i ? width - 34 + "px" : "34px"; });
      }
      function at(e) {
        var r = field.getBoundingClientRect(), x = (e.clientX - r.left) / r.width, y = (e.clientY - r.top) / r.height;
        if (!erases) { var all = steps(run), s = all[Math.max(0, Math.min(all.length - 1, Math.floor(x * all.length)))]; return s[2] + " blocks: " + s[0] + (s[1] > s[0] ? " to " + s[1] : "") + " erases"; }
        var planes = run.numbers["blocks.planes"], rows = Math.ceil(erases.length / planes);
        var i = Math.min(rows - 1, Math.max(0, Math.floor(x * rows))) * planes + Math.min(planes - 1, Math.max(0, Math.floor(y * planes)));
        if (i >= erases.length) return "";
        var p = place(run, i), v = run.lists["blocks.valid"];
        return "block " + i + " (die " + p.die + ", plane " + p.plane + ", row " + p.row + "): " + (isNaN(erases[i]) ? "bad" : erases[i] + " erases") +
          (v && !isNaN(v[i]) && moments[state.frame] === undefined ? ", " + v[i] + " units valid" : "");
      }
      field.addEventListener("pointermove", function (e) {
        var tip = document.getElementById("tip");
        tip.textContent = at(e);
        page.show(e);
      });
      field.addEventListener("click", function (e) { value.textContent = at(e) || mostWords(run); });
      field.addEventListener("pointerleave", hideTip);
    });
  });
}
