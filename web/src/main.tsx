import "@fontsource-variable/inter/wght.css";
import "@/style/tokens.css";
import "@/style/base.css";
import "@/style/components.css";
import "@/style/layout.css";
import "@/style/overview.css";
import "@/style/performance.css";
import "@/style/fleet.css";
import "@/style/playground.css";
import "@/style/specs.css";
import "@/style/plans.css";
import "@/style/what-if.css";
import "@/style/market.css";
import "@/style/templates.css";
import "@/style/apps.css";
import "@/style/cost.css";
import "@/style/events.css";
import "@/style/access.css";
import { setNonce } from "get-nonce";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { applyTheme } from "./theme";

// Style elements that dialogs add while they are open carry what the content security policy asks for.
setNonce(document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "");
applyTheme();
const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
