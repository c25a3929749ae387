import { render } from "preact";
import { takeToken } from "./api";
import { App } from "./app";

takeToken();
render(<App />, document.getElementById("page")!);
