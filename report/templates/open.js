// A link to a claim opens its card; without this script the card is still found, closed.
(() => {
  const show = () => {
    const card = document.getElementById(decodeURIComponent(location.hash.slice(1)))
    if (card instanceof HTMLDetailsElement) { card.open = true; card.scrollIntoView() }
  }
  addEventListener("hashchange", show)
  addEventListener("DOMContentLoaded", show)
})()
