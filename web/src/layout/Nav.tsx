import { useQuery } from "@tanstack/react-query";
import { NavLink } from "react-router";
import { alerts } from "@/api/queries";
import { Badge } from "@/components/Badge";
import { hrefOf, type PageEntry, useShell } from "./shell-context";

const GROUPS: PageEntry["group"][] = ["Run", "Decide", "Account"];

export function Nav({ onGo, className = "" }: { onGo?: () => void; className?: string }) {
  const { pages } = useShell();
  return (
    <nav className={`sidebar ${className}`} aria-label="Pages">
      <NavLink to="/" className="brand" onClick={onGo} aria-label="Medley: to the overview">
        <img src="/icon.svg" alt="" />
        Medley
      </NavLink>
      {GROUPS.filter((group) => pages.some((page) => page.group === group)).map((group) => (
        <div key={group} className="nav-group" role="group" aria-label={group}>
          <span aria-hidden>{group}</span>
          {pages.filter((page) => page.group === group).map((page) => (
            <NavLink key={page.path} to={hrefOf(page)} end={page.path === "/"} className="nav-link" onClick={onGo}>
              <page.icon size={15} aria-hidden />
              {page.name}
              {page.path === "/" && <OpenAlerts />}
            </NavLink>
          ))}
        </div>
      ))}
    </nav>
  );
}

function OpenAlerts() {
  const open = useQuery(alerts()).data?.items.length ?? 0;
  if (!open) return null;
  return (
    <span className="count">
      <Badge tone="bad">
        {open}
        <span className="sr"> open alerts</span>
      </Badge>
    </span>
  );
}
