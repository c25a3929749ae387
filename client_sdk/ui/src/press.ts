// Whether somebody is pressing something. A click is a press and a release on one element: where the page changes
// between them, the browser fires none, or fires it at what has come there. So whatever comes in the background waits
// for the click: of a mouse at its release, of a finger soon after it, of the space bar when it is let go.

/** Within how many ms of a finger's release its click comes. */
const TAP = 350;

let isPressed = false;
let presses = 0;
const waiting: (() => void)[] = [];

function release(): void {
  isPressed = false;
  for (const goOn of waiting.splice(0)) goOn();
}

function press(): void {
  presses++;
  isPressed = true;
}

/** Release in `ms`, unless something is pressed once more by then. */
function releaseIn(ms: number): void {
  const mine = presses;
  setTimeout(() => mine === presses && release(), ms);
}

addEventListener("pointerdown", (event) => (event.button === 0 ? press() : releaseIn(0)), true);
addEventListener("pointerup", ({ pointerType }) => releaseIn(pointerType === "touch" || pointerType === "pen" ? TAP : 0), true);
// The click itself is under way: what waits comes after it.
for (const end of ["click", "pointercancel"]) addEventListener(end, () => releaseIn(0), true);
// A menu, another window or a drag may have had the release.
addEventListener("pointermove", (event) => isPressed && event.buttons === 0 && release(), true);
addEventListener("blur", release);

// What the space bar presses is clicked when it is let go; Enter clicks at once.
const isSpace = ({ key, target }: KeyboardEvent): boolean =>
  key === " " && target instanceof Element && target.closest("button, summary") !== null;
addEventListener("keydown", (event) => isSpace(event) && press(), true);
addEventListener("keyup", (event) => event.key === " " && releaseIn(0), true);

/** Resolves once nothing is pressed, after the click. */
export const released = (): Promise<void> =>
  isPressed ? new Promise((done) => waiting.push(done)) : Promise.resolve();
