// What the pages of report and explorer share: colours that show on black, and legible labels.

/** Mixes two colours; a share of 1 is the second. @param {string} color @param {string} other @param {number} share */
export function mixColors(color, other, share) {
  const part = (text, i) => parseInt(text.slice(i, i + 2), 16);
  return "#" + [1, 3, 5].map((i) => Math.round(part(color, i) + (part(other, i) - part(color, i)) * share).toString(16).padStart(2, "0")).join("");
}

/** Returns a colour that shows on black: as it is, or lighter. @param {string} color */
export function lightenColor(color) {
  const [red, green, blue] = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
  const bright = (0.3 * red + 0.59 * green + 0.11 * blue) / 255;
  return bright >= 0.42 ? color : mixColors(color, "#ffffff", (0.42 - bright) / (1 - bright));
}

/** Hides text that plotly shrank beyond reading; the pointer still shows it. @param {HTMLElement} root */
export function hideTinyText(root, leastPixels = 7) {
  for (const text of /** @type {NodeListOf<SVGTextElement>} */ (root.querySelectorAll(".slicetext"))) {
    const scale = /scale\(([\d.]+)/.exec(text.getAttribute("transform") || "");
    const size = parseFloat(text.style.fontSize || "12") * (scale ? Number(scale[1]) : 1);
    text.style.visibility = size < leastPixels ? "hidden" : "visible";
  }
}
