import {
  Activity,
  Boxes,
  CalendarClock,
  ChartScatter,
  KeyRound,
  FileSliders,
  FlaskConical,
  GitCompareArrows,
  LayoutDashboard,
  MessagesSquare,
  ReceiptText,
  Store,
  Webhook,
  Workflow,
} from "lucide-react";
import type { PageEntry } from "./shell-context";

/** Every page: the navigation, the routes and the command palette are made from this. */
export const PAGES: readonly PageEntry[] = [
  { path: "/", name: "Overview", group: "Run", icon: LayoutDashboard, load: () => import("@/pages/overview/Overview") },
  { path: "/performance", name: "Performance", group: "Run", icon: Activity, load: () => import("@/pages/performance/Performance") },
  { path: "/fleet/:instance", name: "Fleet", group: "Run", icon: Boxes, load: () => import("@/pages/fleet/Fleet") },
  { path: "/apps/:fleet/:app", name: "Apps", group: "Run", icon: Workflow, load: () => import("@/pages/apps/Apps") },
  { path: "/playground", name: "Playground", group: "Run", icon: MessagesSquare, load: () => import("@/pages/playground/Playground") },
  { path: "/specs/:fleet", name: "Specs", group: "Decide", icon: FileSliders, load: () => import("@/pages/specs/Specs") },
  { path: "/plans/:plan", name: "Plan", group: "Decide", icon: GitCompareArrows, load: () => import("@/pages/plans/Plans") },
  { path: "/what-if/:plan", name: "What-if", group: "Decide", icon: FlaskConical, load: () => import("@/pages/what-if/WhatIf") },
  { path: "/market", name: "Market", group: "Decide", icon: Store, load: () => import("@/pages/market/Market") },
  { path: "/templates/:template", name: "Templates", group: "Decide", icon: ChartScatter, load: () => import("@/pages/templates/Templates") },
  { path: "/cost", name: "Cost", group: "Account", icon: ReceiptText, load: () => import("@/pages/cost/Cost") },
  { path: "/events", name: "Events", group: "Account", icon: CalendarClock, load: () => import("@/pages/events/Events") },
  { path: "/webhooks", name: "Webhooks", group: "Account", icon: Webhook, load: () => import("@/pages/webhooks/Webhooks") },
  { path: "/tokens", name: "Tokens and roles", group: "Account", icon: KeyRound, load: () => import("@/pages/tokens/Tokens") },
];
