// What a real browser can tell of a page. An expression, not a program: tests call its parts.
({
  // fields, buttons, landmarks and headings that a screen reader could not tell
  unnamed: () => {
    const wrong = [];
    const seen = new Set();
    const text = (element) => (element.getAttribute("aria-label") || element.textContent || "").trim();
    for (const element of document.querySelectorAll("[id]")) {
      if (seen.has(element.id)) wrong.push(`two elements have the id ${element.id}`);
      seen.add(element.id);
    }
    if (!document.documentElement.lang) wrong.push("the page has no language");
    if (document.querySelectorAll("main").length !== 1) wrong.push("there is not one main landmark");
    if (document.querySelectorAll("h1").length !== 1) wrong.push("there is not one first heading");
    const levels = [...document.querySelectorAll("main :is(h1, h2, h3)")].filter((h) => h.offsetParent).map((h) => Number(h.tagName[1]));
    levels.reduce((before, level) => { if (level > before + 1) wrong.push(`h${level} follows h${before}`); return level; }, 0);
    for (const field of document.querySelectorAll("input:not([type=hidden]):not([hidden]), select, textarea")) {
      const named = [...(field.labels || [])].some((label) => label.textContent.trim()) || field.getAttribute("aria-label");
      if (!named) wrong.push(`the field ${field.name} has no label`);
    }
    for (const button of document.querySelectorAll("button:not([hidden]), a[href], summary")) {
      if (!text(button) && !button.querySelector("img[alt]:not([alt=''])")) wrong.push(`${button.outerHTML} has no name`);
    }
    for (const image of document.querySelectorAll("img")) if (!image.hasAttribute("alt")) wrong.push("an image has no alt");
    for (const id of ["aria-labelledby", "aria-describedby"])
      for (const element of document.querySelectorAll(`[${id}]`))
        if (!document.getElementById(element.getAttribute(id))) wrong.push(`${id} leads nowhere`);
    for (const region of document.querySelectorAll("pre, .scroll, .signatures")) {
      const scrolls = region.scrollHeight > region.clientHeight + 2 || region.scrollWidth > region.clientWidth + 2;
      if (scrolls && getComputedStyle(region).overflow !== "visible" && region.tabIndex < 0) wrong.push(`${region.className} scrolls and cannot be reached by keys`);
    }
    for (const head of document.querySelectorAll("th")) if (!head.scope) wrong.push("a heading of a table has no scope");
    return wrong;
  },
  // texts whose contrast is below WCAG AA
  unreadable: () => {
    const rgb = (text) => { const n = text.match(/[\d.]+/g).map(Number); return { c: n.slice(0, 3), a: n.length > 3 ? n[3] : 1 }; };
    const over = (top, below) => top.c.map((v, i) => v * top.a + below[i] * (1 - top.a));
    const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
    const behind = (element) => {
      const layers = [];
      for (let e = element; e; e = e.parentElement) { const b = rgb(getComputedStyle(e).backgroundColor); if (b.a > 0) layers.push(b); if (b.a === 1) break; }
      return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
    };
    const wrong = [];
    for (const element of document.querySelectorAll("body *")) {
      const says = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || ["INPUT", "SELECT", "TEXTAREA"].includes(element.tagName);
      const box = element.getBoundingClientRect();
      const style = getComputedStyle(element);
      if (!says || box.width < 2 || box.height < 2 || style.visibility === "hidden" || element.closest(".unseen, .skip, [hidden], dialog:not([open]), :disabled")) continue;
      const back = behind(element);
      const size = parseFloat(style.fontSize);
      const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
      const found = ratio(over(rgb(style.color), back), back);
      if (found < needed) wrong.push(`${element.tagName}.${element.className} ${found.toFixed(2)}: ${element.textContent.trim().slice(0, 40)}`);
    }
    return wrong;
  },
  // a page that has to be scrolled sideways
  tooWide: () => {
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    return wide > 0 ? [`the page is ${wide} px wider than the screen`] : [];
  },
})
