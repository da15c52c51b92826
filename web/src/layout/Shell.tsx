import { Tooltip } from "radix-ui";
import { createContext, Suspense, useContext, useState } from "react";
import { Outlet } from "react-router";
import { useLiveEvents } from "@/api/live";
import { Skeleton } from "@/components/feedback";
import { AwayBanner } from "./AwayBanner";
import { Nav } from "./Nav";
import { Palette } from "./Palette";

const ShellContext = createContext<{ live: boolean; search: () => void }>({ live: false, search: () => {} });

export const useShell = () => useContext(ShellContext);

/** What stays while pages change. */
export function Shell() {
  const live = useLiveEvents();
  const [searching, setSearching] = useState(false);
  return (
    <Tooltip.Provider delayDuration={250}>
      <ShellContext.Provider value={{ live, search: () => setSearching(true) }}>
        <a href="#main" className="skip">
          Skip to the page
        </a>
        <div className="shell">
          <Nav className="fixed" />
          <div className="page">
            <AwayBanner />
            <Suspense fallback={<div className="main"><Skeleton height={320} /></div>}>
              <Outlet />
            </Suspense>
          </div>
        </div>
        <Palette open={searching} setOpen={setSearching} />
      </ShellContext.Provider>
    </Tooltip.Provider>
  );
}
