import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { type Say, useAddress } from "@/address";
import { events } from "@/api/past";
import { fleets } from "@/api/queries";
import type { Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Select } from "@/components/Field";
import { Num, Time } from "@/components/figures";
import { TableBox } from "@/components/TableBox";
import { Page } from "@/layout/Page";

type Event = Schemas["Event"];

/** Who did what, what happened, and why: the history of fleets and the audit log are one. */
export default function Events() {
  const [said, say] = useAddress();
  const asked = { fleet: said.get("fleet") ?? undefined, kind: said.get("kind") ?? undefined, subject: said.get("subject") ?? undefined };
  const known = useQuery(fleets()).data ?? [];
  const read = useInfiniteQuery(events(asked));
  const items = read.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Page title="Events">
      <div className="toolbar">
        <Select label="Fleet" value={asked.fleet ?? ""} onChange={(fleet) => say({ fleet })} any="All fleets" options={known.map((fleet) => fleet.name)} />
        <Exact label="Kind, such as plan.accepted" value={asked.kind ?? ""} set={(kind) => say({ kind })} />
        <Exact label="Subject: id of a plan, instance, token…" value={asked.subject ?? ""} set={(subject) => say({ subject })} />
        {(asked.fleet || asked.kind || asked.subject) && (
          <Button tone="ghost" onClick={() => say({ fleet: "", kind: "", subject: "" })}>
            Clear
          </Button>
        )}
      </div>
      <Card flush>
        <Loaded query={read} height={400}>
          {() =>
            items.length ? (
              <TableBox label="Events">
                <table className="events">
                  <thead>
                    <tr>
                      <th scope="col">When</th>
                      <th scope="col">What</th>
                      <th scope="col">Who</th>
                      <th scope="col">Fleet</th>
                      <th scope="col">Subject</th>
                      <th scope="col">Why</th>
                    </tr>
                  </thead>
                  <tbody>
                    {items.map((event) => (
                      <Row key={event.sequence} event={event} say={say} />
                    ))}
                  </tbody>
                </table>
              </TableBox>
            ) : (
              <Empty title="No event fits">Choose another fleet, kind or subject; kinds and subjects must be given whole.</Empty>
            )
          }
        </Loaded>
        {read.hasNextPage && (
          <div className="more">
            <Button disabled={read.isFetchingNextPage} onClick={() => read.fetchNextPage()}>
              {read.isFetchingNextPage ? "Reading…" : "Older events"}
            </Button>
          </div>
        )}
      </Card>
    </Page>
  );
}

function Row({ event, say }: { event: Event; say: Say }) {
  const href = hrefOf(event);
  const detail = Object.entries(event.detail);
  return (
    <tr>
      <td><Time at={event.at} /></td>
      <td>
        <button type="button" className="link mono" onClick={() => say({ kind: event.kind })}>{event.kind}</button>
      </td>
      <td className="mono nowrap">{event.actor}</td>
      <td className="break">{event.fleet}</td>
      <td className="mono break subject">{href ? <Link to={href}>{event.subject}</Link> : event.subject}</td>
      <td className="why">
        <div className="break">{event.text}</div>
        {(detail.length > 0 || event.trace) && (
          <div className="muted break">
            {detail.map(([name, value], n) => (
              <span key={name}>
                {n > 0 && " · "}
                {name.replaceAll("_", " ")} {typeof value === "number" ? <Num value={value} /> : String(value)}
              </span>
            ))}
            {event.trace && <span className="mono"> trace {event.trace}</span>}
          </div>
        )}
      </td>
    </tr>
  );
}

/** The page that shows what an event is about. */
function hrefOf({ kind, subject }: Event): string | null {
  const id = encodeURIComponent(subject);
  if (!subject) return null;
  if (kind.startsWith("instance.")) return `/fleet/${id}`;
  if (kind.startsWith("plan.")) return `/plans/${id}`;
  return null;
}

/** Asked for when it is whole: on Enter, or when it is left. */
function Exact({ label, value, set }: { label: string; value: string; set: (value: string) => void }) {
  const [typed, setTyped] = useState(value);
  const [before, setBefore] = useState(value);
  if (before !== value) {
    setBefore(value);
    setTyped(value);
  }
  return (
    <input
      className="input"
      aria-label={label}
      placeholder={label}
      maxLength={200}
      value={typed}
      onChange={(event) => setTyped(event.target.value)}
      onBlur={() => set(typed.trim())}
      onKeyDown={(event) => event.key === "Enter" && set(typed.trim())}
    />
  );
}
