// What a reader sees of an HTML page: no tags, scripts or comments, characters instead of their names, a line end where a block
// ends. In one pass from left to right, so that no page takes more than its length.

/** Their content is for programs. */
const unread = new Set(["script", "style", "template", "noscript", "svg", "head"]);
const blocks = new Set(
  "p div br li ul ol tr table h1 h2 h3 h4 h5 h6 section article header footer main nav aside blockquote pre hr td th title".split(
    " ",
  ),
);
const characters: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: " ",
  copy: "©",
  mdash: "—",
  ndash: "–",
  hellip: "…",
  lsquo: "‘",
  rsquo: "’",
  ldquo: "“",
  rdquo: "”",
};

export function plainText(html: string): string {
  const pieces: string[] = [];
  let at = 0;
  while (at < html.length) {
    const open = html.indexOf("<", at);
    if (open < 0) {
      pieces.push(html.slice(at));
      break;
    }
    pieces.push(html.slice(at, open));
    if (html.startsWith("<!--", open)) {
      const end = html.indexOf("-->", open + 4);
      at = end < 0 ? html.length : end + 3;
      continue;
    }
    const name = /^\/?([a-z][a-z0-9]*)/i.exec(html.slice(open + 1, open + 32))?.[1]?.toLowerCase();
    if (name === undefined && html[open + 1] !== "!" && html[open + 1] !== "?") {
      // A sign that is no tag: "a < b".
      pieces.push("<");
      at = open + 1;
      continue;
    }
    at = endOfTag(html, open);
    if (name === undefined) continue;
    if (blocks.has(name)) pieces.push("\n");
    if (unread.has(name) && html[open + 1] !== "/") at = endOfUnread(html, at, name);
  }
  return withCharacters(pieces.join(""))
    .replace(/[ \t\r\f\v]+/g, " ")
    .replace(/ ?\n ?/g, "\n")
    .replace(/\n{3,}/g, "\n\n")
    .trim();
}

/** Right behind its ">", which may also stand in a quoted attribute. */
function endOfTag(html: string, open: number): number {
  let quote = "";
  for (let at = open + 1; at < html.length; at++) {
    const sign = html[at] as string;
    if (quote !== "") {
      if (sign === quote) quote = "";
    } else if (sign === '"' || sign === "'") quote = sign;
    else if (sign === ">") return at + 1;
  }
  return html.length;
}

function endOfUnread(html: string, from: number, name: string): number {
  for (let at = html.indexOf("</", from); at >= 0; at = html.indexOf("</", at + 2))
    if (html.slice(at + 2, at + 2 + name.length).toLowerCase() === name) return endOfTag(html, at);
  return html.length;
}

function withCharacters(text: string): string {
  return text.replace(/&(#x[0-9a-f]{1,6}|#[0-9]{1,7}|[a-z]{2,8});/gi, (whole, name: string) => {
    if (!name.startsWith("#")) return characters[name.toLowerCase()] ?? whole;
    const code = name[1]?.toLowerCase() === "x" ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) ? String.fromCodePoint(code) : whole;
  });
}
