// Small helpers that build the page. Text only ever becomes text: nothing here parses markup.

const HIDDEN_SIGNS = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Returns a person's own text on one line: invisible signs spelled out, long text cut.
 * @param {unknown} value @param {number} width */
export function oneLine(value, width = 90) {
  const text = Array.from(String(value).slice(0, 4 * width)).join("");
  const clean = text.replace(HIDDEN_SIGNS, (sign) => (sign === "\u200d" ? sign : "\\u" + (sign.codePointAt(0) || 0).toString(16).padStart(4, "0")));
  const signs = Array.from(clean || "''");
  if (signs.length <= width) return signs.join("");
  // "Theory (2)" and "Theory (3)" differ in their last signs: those stay.
  const number = / \(\d+\)$/.exec(signs.join(""));
  const tail = number && number[0].length < width / 2 ? number[0] : "";
  return signs.slice(0, width - 1 - tail.length).join("").trimEnd() + "…" + tail;
}

/** Returns text for a plotly label, which would otherwise read markup in it.
 * @param {unknown} value @param {number} width */
export function plotText(value, width = 34) {
  return oneLine(value, width).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** Breaks a plotly label into lines at its spaces. @param {string} text @param {number} width */
export function wrapLines(text, width = 15) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines[lines.length - 1];
    if (last && last.length + word.length + 1 > width) lines.push(word);
    else lines[lines.length - 1] = last ? last + " " + word : word;
  }
  return lines.join("<br>");
}

/** Makes an element. @template {keyof HTMLElementTagNameMap} T @param {T} tag @param {Record<string, any>} props @param {...any} children */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name === "className" ? "class" : name, String(value));
  }
  node.append(...children.filter((c) => c != null));
  return node;
}

/** The element with an id that the page always has. @param {string} id */
export function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

export const count = (/** @type {number} */ number) => Number(number).toLocaleString("en");
export const percent = (/** @type {number} */ share, digits = 0) => (100 * share).toFixed(digits) + "%";

let alertTimer = 0;
/** Shows something the person should not miss. @param {string} text */
export function showAlert(text) {
  const box = byId("alert");
  box.textContent = oneLine(text, 300);
  box.hidden = false;
  clearTimeout(alertTimer);
  alertTimer = window.setTimeout(() => (box.hidden = true), 6000);
}
