// Whether the pointer is pressed. A click is a press and a release on one element: where the page changes between
// them, the browser fires none. So whatever comes in the background waits for the release.

let isPressed = false;
let presses = 0;
const waiting: (() => void)[] = [];

function release(): void {
  isPressed = false;
  for (const goOn of waiting.splice(0)) goOn();
}

addEventListener(
  "pointerdown",
  (event) => {
    presses++;
    isPressed = event.button === 0;
  },
  true,
);
for (const end of ["pointerup", "pointercancel"])
  addEventListener(
    end,
    () => {
      const press = presses;
      setTimeout(() => press === presses && release()); // The click comes first.
    },
    true,
  );
// A menu, another window or a drag may have had the release.
addEventListener("pointermove", (event) => isPressed && event.buttons === 0 && release(), true);
addEventListener("blur", release);

/** Resolves once the pointer is not pressed, after the click. */
export const released = (): Promise<void> =>
  isPressed ? new Promise((done) => waiting.push(done)) : Promise.resolve();
