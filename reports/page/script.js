// Conveniences; the page says everything without them: filters, folding everything at once, and buttons that step
// through a counterexample (without a script, links do that).
(function () {
  "use strict";
  function make(name, text, attributes) {
    var element = document.createElement(name);
    if (text) element.textContent = text;
    for (var key in attributes || {}) element.setAttribute(key, attributes[key]);
    return element;
  }

  document.querySelectorAll("table").forEach(function (table, at) {
    var rows = table.tBodies[0] ? table.tBodies[0].rows : [];
    if (rows.length < 12) return;
    var id = "filter-" + at;
    var bar = make("div", "", { class: "controls" });
    var field = make("input", "", { id: id, type: "search" });
    var status = make("span", "", { role: "status" });
    bar.append(make("label", "Show rows with", { for: id }), field, status);
    table.closest(".scroll").before(bar);
    field.addEventListener("input", function () {
      var wanted = field.value.toLowerCase(), shown = 0;
      Array.prototype.forEach.call(rows, function (row) {
        row.hidden = row.textContent.toLowerCase().indexOf(wanted) < 0;
        shown += row.hidden ? 0 : 1;
      });
      status.textContent = wanted ? shown + " of " + rows.length : "";
    });
  });

  var main = document.querySelector("main");
  var every = make("div", "", { class: "controls" });
  var find = make("input", "", { id: "filter-page", type: "search" });
  var count = make("span", "", { role: "status" });
  every.append(make("label", "Show results with", { for: "filter-page" }), find, count);
  [["Fold all", false], ["Unfold all", true]].forEach(function (way) {
    var button = make("button", way[0], { type: "button" });
    button.addEventListener("click", function () {
      main.querySelectorAll("details:not([name])").forEach(function (one) { one.open = way[1]; });
    });
    every.append(button);
  });
  var good = make("input", "", { id: "hide-good", type: "checkbox" });
  every.append(good, make("label", "Hide what holds", { for: "hide-good" }));
  main.prepend(every);
  function filter() {
    var wanted = find.value.toLowerCase(), shown = 0;
    var all = main.querySelectorAll("article, #verdicts tbody tr");
    all.forEach(function (one) {
      var fine = good.checked && (one.closest("#expected") || !one.querySelector(".verdict.bad, .verdict.open"));
      one.hidden = fine || one.textContent.toLowerCase().indexOf(wanted) < 0;
      shown += one.hidden ? 0 : 1;
    });
    count.textContent = wanted || good.checked ? shown + " of " + all.length : "";
  }
  find.addEventListener("input", filter);
  good.addEventListener("change", filter);

  document.querySelectorAll("[data-counterexample]").forEach(function (counterexample) {
    var rows = counterexample.querySelectorAll("g.row");
    if (rows.length < 2) return;
    var now = rows.length;
    var links = counterexample.querySelector(".moments");
    if (links) links.hidden = true;
    var bar = make("div", "", { class: "controls" });
    var status = make("span", "", { role: "status" });
    function show(step) {
      now = Math.max(0, Math.min(rows.length, step));
      rows.forEach(function (row, at) {
        row.classList.toggle("hidden", at >= now);
        row.classList.toggle("now", at === now - 1 && now < rows.length);
      });
      status.textContent = now === rows.length ? "all " + now + " moments" : "moment " + now + " of " + rows.length;
    }
    [["First", function () { show(1); }], ["Back", function () { show(now - 1); }],
     ["Next", function () { show(now === rows.length ? 1 : now + 1); }], ["All", function () { show(rows.length); }]
    ].forEach(function (button) {
      var element = make("button", button[0], { type: "button" });
      element.addEventListener("click", button[1]);
      bar.append(element);
    });
    bar.append(status);
    counterexample.before(bar);
    show(rows.length);
  });
})();
