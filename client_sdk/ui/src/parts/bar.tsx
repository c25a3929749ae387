// A bar of used parts. The numbers are beside it: a bar alone says nothing to a screen reader,
// and colours nothing to a reader who cannot see them.
//
// The bar is SVG, for the page's Content-Security-Policy allows no inline style.

export interface Piece {
  kind: "used" | "stopping" | "reserved" | "foreign" | "free" | "over" | "done";
  name: string;
  amount: number;
}

/** Without a label it is decoration: the text beside it says all. */
export function Bar({ pieces, total, label }: { pieces: Piece[]; total: number; label?: string }) {
  const whole = Math.max(total, pieces.reduce((sum, piece) => sum + piece.amount, 0), 1);
  let begin = 0;
  return (
    <svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" {...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" })}>
      <rect class="ground" width="100" height="8" />
      {pieces.map((piece) => {
        const width = (piece.amount / whole) * 100;
        const x = begin;
        begin += width;
        return width > 0 ? (
          <rect key={piece.kind} class={piece.kind} x={x} width={width} height="8">
            <title>{`${piece.name}: ${piece.amount}`}</title>
          </rect>
        ) : null;
      })}
    </svg>
  );
}

export function Legend({ pieces }: { pieces: Piece[] }) {
  return (
    <ul class="legend">
      {pieces
        .filter((piece) => piece.amount > 0 || piece.kind === "free")
        .map((piece) => (
          <li key={piece.kind}>
            <span class={`key ${piece.kind}`} aria-hidden="true" />
            {piece.amount.toLocaleString("en")} {piece.name}
          </li>
        ))}
    </ul>
  );
}
