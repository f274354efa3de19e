// What the theme leaves without a name, or out of the keyboard's reach.
for (const dialog of document.querySelectorAll('[role="dialog"]:not([aria-label])')) dialog.ariaLabel = "Search";

function reach() {
  for (const part of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}
addEventListener("load", reach);
addEventListener("resize", reach);
