// A link to a claim opens its card; without this script the card is still found, closed.
(() => {
  const show = () => {
    const target = document.getElementById(location.hash.slice(1))
    if (target instanceof HTMLDetailsElement) target.open = true
    target?.scrollIntoView()
  }
  addEventListener("hashchange", show)
  addEventListener("DOMContentLoaded", show)
})();
