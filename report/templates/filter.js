// The bar that filters claims. Its state is the fragment of the address (#?verdict=refuted&search=gate), which can be
// linked to. A fragment without the question mark names an element, as ever; a filter that hides it is taken off.
//
// A claim is an element of class "claim" inside a section of class "chapter" (id "chapter-…"), with data-verdicts
// (words) and data-subjects (a name a line). Searched is what bears data-searched: its value, else the element's text.
// A cell with data-filter (verdict=refuted) becomes a link to that filter.
(() => {
  const form = document.getElementById("filter")
  if (!form) return
  const said = form.querySelector("output"), { search } = form.elements
  const chapters = [...document.querySelectorAll(".chapter")]
  const folded = text => text.normalize("NFKC").toLowerCase()
  const claims = [...document.querySelectorAll(".chapter .claim")].map(element => ({
    element,
    chapter: [element.closest(".chapter").id.replace("chapter-", "")],
    verdict: element.dataset.verdicts.split(" "),
    subject: element.dataset.subjects.split("\n"),
    text: folded([...element.querySelectorAll("[data-searched]")].map(e => e.dataset.searched || e.textContent).join("\n")),
  }))

  const fields = () => [...form.elements].filter(field => field.name && field.value.trim())
  const query = () => new URLSearchParams(fields().map(field => [field.name, field.value.trim()])).toString()

  function apply() {
    const exact = fields().filter(field => field !== search), words = folded(search.value).split(/\s+/)
    let shown = 0
    for (const claim of claims) {
      const fits = exact.every(field => claim[field.name].includes(field.value)) && words.every(w => claim.text.includes(w))
      claim.element.hidden = !fits
      shown += fits
    }
    for (const chapter of chapters) chapter.hidden = !chapter.querySelector(".claim:not([hidden])")
    const by = fields().map(field => field.selectedOptions?.[0].label ?? `“${field.value.trim()}”`)
    said.textContent = `${by.length ? `${shown} of ` : ""}${claims.length} claim${claims.length === 1 ? "" : "s"}`
    said.dataset.by = by.join(", ")
    // A chapter's figures belong to the chapter, not to those of its claims that fit.
    document.body.classList.toggle("picked", fields().some(field => field.name !== "chapter"))
  }

  function fill(values) {
    for (const field of form.elements) {
      if (!field.name) continue
      field.value = values.get(field.name) ?? ""
      if (field.selectedIndex < 0) field.selectedIndex = 0
    }
    apply()
  }

  const keep = () => history.replaceState(null, "", query() ? `#?${query()}` : location.pathname + location.search)

  function follow() {
    const before = query(), fragment = location.hash.slice(1)
    if (fragment.startsWith("?")) fill(new URLSearchParams(fragment))
    else if (!fragment || document.getElementById(fragment)?.closest("[hidden]")) fill(new URLSearchParams())
    if (!fragment.startsWith("?") || query() === before) return
    form.scrollIntoView()
    form.focus({ preventScroll: true })
  }

  form.addEventListener("input", apply)
  form.addEventListener("change", keep)
  form.addEventListener("reset", event => {
    event.preventDefault()
    fill(new URLSearchParams())
    keep()
  })
  form.addEventListener("submit", event => {
    event.preventDefault()
    keep()
    document.querySelector(".claim:not([hidden]) summary")?.focus()
  })
  addEventListener("keydown", event => {
    if (event.key === "Escape" && event.target === search) {
      event.preventDefault()
      search.value = ""
      apply()
      keep()
    } else if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey
      && !event.target.closest?.("input, select, textarea, [contenteditable]")) {
      event.preventDefault()
      search.focus()
      search.select()
    }
  })
  addEventListener("hashchange", follow)

  for (const cell of document.querySelectorAll("[data-filter]")) {
    const link = document.createElement("a")
    link.href = `#?${cell.dataset.filter}`
    link.ariaLabel = `${cell.textContent}, ${cell.closest("tr").cells[0].textContent}`
    link.append(...cell.childNodes)
    cell.append(link)
  }
  form.hidden = false
  apply()
  follow()
})();
