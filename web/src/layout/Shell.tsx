import { Tooltip } from "radix-ui";
import { useEffect, useState } from "react";
import { Outlet } from "react-router";
import { useLiveEvents } from "@/api/live";
import { AwayBanner } from "./AwayBanner";
import { Nav } from "./Nav";
import { Palette } from "./Palette";
import { PAGES } from "./pages";
import { ShellContext } from "./shell-context";

const AT_REST_MS = 1_500;

/** What stays while pages change. */
export function Shell() {
  const live = useLiveEvents();
  const [searching, setSearching] = useState(false);
  // Whoever goes to another page waits for its figures only.
  useEffect(() => {
    const timer = setTimeout(() => PAGES.forEach(({ load }) => void load().catch(() => undefined)), AT_REST_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <Tooltip.Provider delayDuration={250}>
      <ShellContext.Provider value={{ live, search: () => setSearching(true), pages: PAGES }}>
        <a href="#main" className="skip">
          Skip to the page
        </a>
        <div className="shell">
          <Nav className="fixed" />
          <div className="page">
            <AwayBanner />
            <Outlet />
          </div>
        </div>
        <Palette open={searching} setOpen={setSearching} />
      </ShellContext.Provider>
    </Tooltip.Provider>
  );
}
