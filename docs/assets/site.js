// What the theme leaves without a name, or out of the keyboard's reach.
for (const dialog of document.querySelectorAll('[role="dialog"]:not([aria-label])')) dialog.ariaLabel = "Search";

function reach() {
  for (const part of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}
addEventListener("load", () => {
  reach();
  // a bar with one button is no place that readers want to be led to, a hundred times a page
  for (const bar of document.querySelectorAll(".md-code__nav")) bar.role = "presentation";
});
addEventListener("resize", reach);
