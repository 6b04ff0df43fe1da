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
  document.querySelectorAll(".copy button").forEach(function (b) {
    b.hidden = false;
    b.addEventListener("click", function () {
      var text = b.parentNode.querySelector("pre").textContent;
      navigator.clipboard.writeText(text).then(function () { b.textContent = "Copied"; });
    });
  });
  function show(e) {
    tip.style.visibility = "visible";
    var left = e.clientX + 16, top = e.clientY + 14;
    if (left + tip.offsetWidth > innerWidth - 8) left = Math.max(4, e.clientX - tip.offsetWidth - 12);
    if (top + tip.offsetHeight > innerHeight - 8) top = e.clientY - tip.offsetHeight - 12;
    tip.style.left = left + "px"; tip.style.top = top + "px";
  }
  // A part of the address as text; one that is none (a lone %) is itself.
  function plain(part) { try { return decodeURIComponent(part); } catch (e) { return part; } }
  // What a link leads to is unfolded.
  function unfold() {
    var to = location.hash && document.getElementById(plain(location.hash.slice(1)));
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
  // For the script of a page.
  window.page = { plain: plain, shade: shade, show: show };
  // What is wider than the window says so: its edge is shaded until one has scrolled to it.
  document.querySelectorAll(".scroll").forEach(shade);
  document.querySelectorAll(".wide").forEach(shade);
  function shade(at) {
    // What is folded away is laid out when it is measured, so it is measured when it is unfolded.
    var folds = [];
    for (var up = at.parentNode; up; up = up.parentNode) if (up.tagName === "DETAILS") folds.push(up);
    folds.forEach(function (fold) { fold.addEventListener("toggle", look); });
    function look() { if (folds.every(function (fold) { return fold.open; })) at.classList.toggle("more", at.scrollWidth - at.clientWidth - at.scrollLeft > 2); }
    at.addEventListener("scroll", look);
    addEventListener("resize", look);
    look();
  }
})();
