import { useQuery } from "@tanstack/react-query";
import { Command } from "cmdk";
import { Boxes, Server } from "lucide-react";
import { Dialog } from "radix-ui";
import { useEffect, useState } from "react";
import { useNavigate } from "react-router";
import { fleets, instances } from "@/api/queries";
import { Modal } from "@/components/Dialog";
import { PAGES } from "./pages";
import { hrefOf } from "./shell-context";

const MOST = 8;

/** Ctrl+K: to any page, fleet or instance by typing some of its name. */
export function Palette({ open, setOpen }: { open: boolean; setOpen: (open: boolean) => void }) {
  const go = useNavigate();
  const [typed, setTyped] = useState("");
  const known = useQuery({ ...fleets(), enabled: open }).data ?? [];
  const running = useQuery({ ...instances(), enabled: open && typed.length > 1 }).data?.items ?? [];
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() === "k" && (event.metaKey || event.ctrlKey)) {
        event.preventDefault();
        setOpen(true);
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [setOpen]);
  const wanted = typed.toLowerCase();
  const fits = (...words: string[]) => words.some((word) => word.toLowerCase().includes(wanted));
  const pages = PAGES.filter((page) => fits(page.name));
  const named = known.filter((fleet) => fits(fleet.name)).slice(0, MOST);
  const found = wanted.length > 1 ? running.filter((one) => fits(one.id, one.model, one.zone)).slice(0, MOST) : [];
  const to = (path: string) => {
    setOpen(false);
    setTyped("");
    go(path);
  };
  return (
    <Modal open={open} onClose={() => setOpen(false)} className="dialog palette">
      <Dialog.Title className="sr">Go to</Dialog.Title>
      <Command shouldFilter={false} label="Go to">
        <Command.Input placeholder="A page, a fleet, an instance…" value={typed} onValueChange={setTyped} />
        <Command.List>
          <Command.Empty>Nothing has that name.</Command.Empty>
          {pages.length > 0 && (
            <Command.Group heading="Pages">
              {pages.map((page) => (
                <Command.Item key={page.path} value={`page ${page.name}`} onSelect={() => to(hrefOf(page))}>
                  <page.icon size={15} aria-hidden />
                  {page.name}
                </Command.Item>
              ))}
            </Command.Group>
          )}
          {named.length > 0 && (
            <Command.Group heading="Fleets">
              {named.map((fleet) => (
                <Command.Item key={fleet.name} value={`fleet ${fleet.name}`} onSelect={() => to(`/plans?fleet=${encodeURIComponent(fleet.name)}`)}>
                  <Boxes size={15} aria-hidden />
                  <span className="clip">{fleet.name}</span>
                </Command.Item>
              ))}
            </Command.Group>
          )}
          {found.length > 0 && (
            <Command.Group heading="Instances">
              {found.map((one) => (
                <Command.Item key={one.id} value={`instance ${one.id}`} onSelect={() => to(`/fleet/${one.id}`)}>
                  <Server size={15} aria-hidden />
                  <span className="mono">{one.id}</span>
                  <span className="muted clip">
                    {one.model} in {one.zone}
                  </span>
                </Command.Item>
              ))}
            </Command.Group>
          )}
        </Command.List>
      </Command>
    </Modal>
  );
}
