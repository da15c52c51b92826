import { Menu, Search } from "lucide-react";
import { Dialog } from "radix-ui";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useLocation } from "react-router";
import { Button } from "@/components/Button";
import { Nav } from "./Nav";
import { useShell } from "./shell-context";
import { UserMenu } from "./UserMenu";

type PageProps = { title: string; side?: ReactNode; children: ReactNode };

/** A page below its bar. `side`: what acts on the page as a whole. */
export function Page({ title, side, children }: PageProps) {
  const { live, search } = useShell();
  const main = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  const [top] = pathname.split("/").slice(1);
  useEffect(() => {
    document.title = `${title} · Medley`;
  }, [title]);
  // Who goes to another page hears and tabs from its beginning.
  const before = useRef(top);
  useEffect(() => {
    if (before.current !== top) main.current?.focus({ preventScroll: true });
    before.current = top;
    if (document.activeElement === document.body) main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [top]);
  return (
    <>
      <header className="topbar">
        <NavDrawer />
        <h1 className="clip">{title}</h1>
        <span className="grow" />
        <span className="live" title={live ? "Changes are shown as they happen" : "Not connected to the live feed; trying again"}>
          <i className={`dot ${live ? "good" : "warn"}`} aria-hidden />
          <span role="status">{live ? "Live" : "Connecting"}</span>
        </span>
        {side}
        <Button className="search" onClick={search} aria-label="Go to… ⌘K" aria-keyshortcuts="Control+K Meta+K">
          <Search size={14} aria-hidden />
          <span>Go to…</span>
          <kbd aria-hidden>⌘K</kbd>
        </Button>
        <UserMenu />
      </header>
      <main className="main" id="main" ref={main} tabIndex={-1}>
        {children}
      </main>
    </>
  );
}

function NavDrawer() {
  const [open, setOpen] = useState(false);
  return (
    <Dialog.Root open={open} onOpenChange={setOpen}>
      <Dialog.Trigger asChild>
        <Button tone="ghost" icon className="menu-button" aria-label="Pages">
          <Menu size={16} aria-hidden />
        </Button>
      </Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Overlay className="dialog-scrim" />
        <Dialog.Content className="nav-drawer" aria-describedby="">
          <Dialog.Title className="sr">Pages</Dialog.Title>
          <Nav onGo={() => setOpen(false)} />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
