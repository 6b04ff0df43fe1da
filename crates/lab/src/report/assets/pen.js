// Two pens with the same strokes: one for the screen, one for the SVG that is copied.
function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }
function canvasPen(canvas, width, height) {
  var scale = window.devicePixelRatio || 1, c = canvas.getContext("2d");
  canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
  c.setTransform(scale, 0, 0, scale, 0, 0);
  return {
    box: function (x, y, w, h, fill, alpha) {
      c.globalAlpha = alpha === undefined ? 1 : alpha; c.fillStyle = fill; c.fillRect(x, y, w, h); c.globalAlpha = 1;
    },
    area: function (points, fill, alpha) {
      if (points.length < 3) return;
      c.globalAlpha = alpha; c.fillStyle = fill; c.beginPath();
      points.forEach(function (p, i) { if (i) c.lineTo(p[0], p[1]); else c.moveTo(p[0], p[1]); });
      c.closePath(); c.fill(); c.globalAlpha = 1;
    },
    line: function (points, stroke, width, dash) {
      c.strokeStyle = stroke; c.lineWidth = width; c.lineJoin = "round"; c.setLineDash(dash || []); c.beginPath();
      var down = false;
      points.forEach(function (p) {
        if (isNaN(p[1])) { down = false; return; }
        if (down) c.lineTo(p[0], p[1]); else c.moveTo(p[0], p[1]);
        down = true;
      });
      c.stroke(); c.setLineDash([]);
    },
    text: function () {}
  };
}
function svgPen() {
  var out = [], r = function (v) { return Math.round(v * 10) / 10; };
  function safe(s) { return String(s).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;"); }
  return {
    shift: 0,
    at: function (x, y) { out.push('<g transform="translate(' + r(x) + " " + r(y) + ')">'); },
    end: function () { out.push("</g>"); },
    box: function (x, y, w, h, fill, alpha) {
      out.push('<rect x="' + r(x) + '" y="' + r(y) + '" width="' + r(w) + '" height="' + r(h) + '" fill="' + fill + '"' +
        (alpha === undefined ? "" : ' fill-opacity="' + Math.round(alpha * 100) / 100 + '"') + "/>");
    },
    area: function (points, fill, alpha) {
      if (points.length < 3) return;
      out.push('<polygon points="' + points.map(function (p) { return r(p[0]) + "," + r(p[1]); }).join(" ") +
        '" fill="' + fill + '" fill-opacity="' + alpha + '"/>');
    },
    line: function (points, stroke, width, dash) {
      var d = "", down = false;
      points.forEach(function (p) {
        if (isNaN(p[1])) { down = false; return; }
        d += (down ? "L" : "M") + r(p[0]) + " " + r(p[1]);
        down = true;
      });
      if (d) out.push('<path d="' + d + '" fill="none" stroke="' + stroke + '" stroke-width="' + width + '"' +
        (dash && dash.length ? ' stroke-dasharray="' + dash.join(" ") + '"' : "") + "/>");
    },
    text: function (x, y, s, anchor, fill, bold) {
      out.push('<text x="' + r(x) + '" y="' + r(y) + '" text-anchor="' + (anchor || "start") + '" fill="' + fill + '"' +
        (bold ? ' font-weight="600"' : "") + ">" + safe(s) + "</text>");
    },
    done: function (width, height) {
      return '<svg xmlns="http://www.w3.org/2000/svg" width="' + width + '" height="' + height + '" viewBox="0 0 ' + width + " " +
        height + '" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="' + colour("card") + '"/>' +
        out.join("") + "</svg>\n";
    }
  };
}
// Round ticks of a linear axis that holds 0 and `high`; of a logarithmic one, powers of ten.
function ticks(high, most) {
  if (!(high > 0)) return [0, 1];
  var raw = high / most, mag = Math.pow(10, Math.floor(Math.log10(raw))), step = mag;
  [1, 2, 5, 10].some(function (k) { step = k * mag; return step >= raw; });
  var out = [];
  for (var v = 0; v <= high * 1.0001 + step * 0.0001; v += step) out.push(+v.toPrecision(12));
  return out;
}
function decades(low, high, most) {
  var out = [], from = Math.ceil(Math.log10(low) - 1e-9), to = Math.floor(Math.log10(high) + 1e-9);
  var step = Math.max(1, Math.ceil((to - from + 1) / most));
  for (var e = from; e <= to; e += step) out.push(Math.pow(10, e));
  return out;
}
