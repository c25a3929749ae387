// The bars of one pool. A few paths draw them all; one bar at a time is in the order of Tab.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { ofJob, type HeldSlots } from "../api";
import { asPath, boxOf, inSight, lines, neighbour, type Box } from "../bars";
import { drawing, inWords, under, type Held, type PoolLanes, type Span, type Tick } from "../timeline";
import { counted } from "../words";

const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

export function Lanes({
  pool,
  span,
  width,
  marks,
  now,
  pointed,
  point,
}: {
  pool: PoolLanes;
  span: Span;
  width: number;
  marks: Tick[];
  now: number;
  pointed: HeldSlots | undefined;
  point: (of: HeldSlots | undefined) => void;
}) {
  const { from, to } = span;
  const drawn = useMemo(() => drawing(pool, { from, to }, width), [pool, from, to, width]);
  const all = useMemo(() => lines(pool, { from, to }, width, drawn.lane), [pool, from, to, width, drawn.lane]);
  const evictions = pool.held.filter((bar) => bar.of.evicted).length;
  const what = [counted(pool.held.length, "attempt"), counted(evictions, "eviction")].join(", ");
  const look = (event: PointerEvent) => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    point(under(pool, span, width, drawn.lane, event.clientX - box.left, event.clientY - box.top));
  };
  return (
    <section aria-labelledby={`lanes-${pool.pool}`}>
      <h2 id={`lanes-${pool.pool}`}>
        {pool.pool} <small>{what}</small>
      </h2>
      <div class="bars">
        <svg
          class="lanes"
          viewBox={`0 0 ${width} ${drawn.height}`}
          height={drawn.height}
          role="img"
          aria-label={`${pool.pool}: ${what}`}
          onPointerMove={look}
          onPointerDown={look}
          onPointerLeave={() => point(undefined)}
        >
          <path class="grid" d={marks.map(({ x }) => `M${Math.round(x)} 0v${drawn.height}`).join("")} />
          <path class="starts" d={drawn.starts} />
          <path class="runs" d={drawn.runs} />
          <path class="spot" d={drawn.spot} />
          <path class="warm" d={drawn.warm} />
          <path class="evicted" d={drawn.evicted} />
          <path class="line" d={asPath(all, pointed)} />
          {drawn.names.map(({ x, y, text, pale, beside, ends }) => (
            <text key={`${x} ${y} ${text}`} class={[beside ? `beside ${beside}` : "name", pale && "pale", ends && "ends"].filter(Boolean).join(" ")} x={x} y={y}>
              {text}
            </text>
          ))}
        </svg>
        <Walk pool={pool} span={span} width={width} lane={drawn.lane} now={now} point={point} />
      </div>
    </section>
  );
}

/** The same attempt in a newer answer is another object. */
const identity = ({ of, lane }: Held): string => [of.job, of.number, of.admitted_at, lane].join(" ");

/** Where the keyboard is among the bars: Tab comes here, the arrows lead to the neighbours, Enter opens the job. */
function Walk({
  pool,
  span: { from, to },
  width,
  lane,
  now,
  point,
}: {
  pool: PoolLanes;
  span: Span;
  width: number;
  lane: number;
  now: number;
  point: (of: HeldSlots | undefined) => void;
}) {
  const bars = useMemo(() => inSight(pool, { from, to }), [pool, from, to]);
  const [chosen, setChosen] = useState("");
  const bar = useRef<HTMLDivElement>(null);
  const moves = useRef(false);
  const current = bars.find((held) => identity(held) === chosen) ?? bars[0];
  const box: Box | undefined = current && boxOf(current, { from, to }, width, lane);
  useLayoutEffect(() => {
    // Set through the object model, which the Content-Security-Policy allows, unlike an attribute.
    if (bar.current && box)
      for (const side of ["left", "top", "width", "height"] as const) bar.current.style[side] = `${box[side]}px`;
    if (moves.current) bar.current?.querySelector("a")?.focus();
    moves.current = false;
  });
  if (!current) return null;
  const { of } = current;
  const walk = (event: KeyboardEvent) => {
    if (!KEYS.includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation(); // Beside the bars the arrows move the window.
    const next = neighbour(bars, current, event.key);
    if (!next) return;
    moves.current = true;
    setChosen(identity(next));
  };
  // A new element for each bar: screen readers say what gets the focus, and not what its label becomes.
  const shown = {
    key: identity(current),
    "aria-label": inWords(of, now),
    onKeyDown: walk,
    onFocus: () => {
      setChosen(identity(current)); // It stays while newer answers bring bars before it.
      point(of);
    },
    onBlur: () => point(undefined),
  };
  return (
    <div ref={bar} class="bar-walk">
      {of.job ? (
        <Link href={ofJob(of.job)} {...shown} />
      ) : (
        <a role="link" aria-disabled="true" tabIndex={0} {...shown} />
      )}
    </div>
  );
}
