// What is wrong with the page for a reader who looks at it: a list of texts. Contrast is that of WCAG 2.2, 1.4.3.
(() => {
  const wrong = [];
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth)
    wrong.push(`the page is ${root.scrollWidth} px wide in a window of ${window.innerWidth}`);
  const parse = (text) => (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = ([r, g, b]) => {
    const linear = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  };
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    if (!text || !element.getClientRects().length) continue;
    texts += 1;
    const style = getComputedStyle(element);
    const front = parse(element instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(front), light(background(element))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) wrong.push(`contrast ${contrast.toFixed(2)} of "${text}"`);
    const box = element.getBoundingClientRect();
    if (box.width > 1 && box.right > window.innerWidth + 1)
      wrong.push(`"${text}" ends at ${box.right} px in a window of ${window.innerWidth}`);
    for (const word of walker.currentNode.textContent.matchAll(/(?<=^|\s)[\w.]{1,10}(?=\s|$)/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((part) => Math.round(part.top)));
      if (lines.size > 1) wrong.push(`the word "${word[0]}" is broken in "${text}"`);
    }
  }
  if (texts < 40) wrong.push(`only ${texts} texts were looked at`);
  for (const time of document.querySelectorAll("time"))
    if (Number.isNaN(Date.parse(time.dateTime))) wrong.push(`the time ${time.outerHTML}`);
  for (const header of document.querySelectorAll("th"))
    if (!header.scope) wrong.push(`the header "${header.textContent}" has no scope`);
  if (document.querySelectorAll("script, form, iframe, img, [style], [onclick]").length)
    wrong.push("something that the page must not have");
  if (root.lang !== "en") wrong.push(`the language is "${root.lang}"`);
  return wrong;
})()
