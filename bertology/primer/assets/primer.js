// A link to a claim opens it.
(() => {
  "use strict";
  const open = () => {
    const claim = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (claim instanceof HTMLDetailsElement) claim.open = true;
  };
  addEventListener("hashchange", open);
  open();
})();
