import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useNavigate } from "react-router";
import type { Schemas } from "@/api/client";
import { fleets, status } from "@/api/queries";
import { Badge, type Tone } from "@/components/Badge";
import { ActButton } from "@/components/Button";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Count, Time, Usd } from "@/components/figures";
import { TableBox } from "@/components/TableBox";
import { EndDialog } from "./EndDialog";
import { ModeDialog } from "./ModeDialog";

type Fleet = Schemas["Fleet"];
const TONES: Record<string, Tone> = { observe: "plain", approve: "accent", auto: "good" };

/** Every fleet with its mode, which can be changed here, and what its plan costs. */
export function FleetTable() {
  const known = useQuery(fleets());
  const go = useNavigate();
  const [changed, setChanged] = useState<Fleet | null>(null);
  const [ended, setEnded] = useState<Fleet | null>(null);
  return (
    <Card
      title="Fleets"
      flush
      side={
        <ActButton operation="create_fleet" tone="primary" small onClick={() => go("/specs?new=1")}>
          New fleet
        </ActButton>
      }
    >
      <Loaded query={known} height={200}>
        {(all) =>
          all.length === 0 ? (
            <Empty title="No fleet yet">
              <p>A fleet says what models to serve, how fast, and where. A new one only observes: it plans and prices, and rents nothing.</p>
            </Empty>
          ) : (
            <Rows all={all} onMode={setChanged} onEnd={setEnded} />
          )
        }
      </Loaded>
      {changed && <ModeDialog fleet={changed} onClose={() => setChanged(null)} />}
      {ended && <EndDialog fleet={ended} onClose={() => setEnded(null)} />}
    </Card>
  );
}

function Rows({ all, onMode, onEnd }: { all: Fleet[]; onMode: (fleet: Fleet) => void; onEnd: (fleet: Fleet) => void }) {
  const solves = useQuery(status()).data?.solves ?? [];
  return (
    <TableBox label="Fleets">
      <table>
        <thead>
          <tr>
            <th scope="col">Fleet</th>
            <th scope="col">Project</th>
            <th scope="col">Mode</th>
            <th scope="col" className="right">Models</th>
            <th scope="col" className="right">Newest plan</th>
            <th scope="col">Changed</th>
            <th scope="col"><span className="sr">Actions</span></th>
          </tr>
        </thead>
        <tbody>
          {all.map((fleet) => (
            <tr key={fleet.name}>
              <td className="name">
                <Link className="strong clip" title={fleet.name} to={`/specs/${fleet.name}`}>
                  {fleet.name}
                </Link>
                {fleet.trouble && <div className="bad break">{fleet.trouble}</div>}
              </td>
              <td className="break">{fleet.project}</td>
              <td>
                <Badge tone={fleet.ending ? "warn" : (TONES[fleet.mode] ?? "plain")} dot>
                  {fleet.ending ? "ending" : fleet.mode}
                </Badge>
              </td>
              <td className="right"><Count value={countOf(fleet.spec.models) + countOf(fleet.spec.apps)} /></td>
              <td className="right"><Usd value={solves.find((each) => each.fleet === fleet.name && each.plan)?.usd_per_hour} per="h" none="none yet" /></td>
              <td><Time at={fleet.updated_at} ago /></td>
              <td className="right">
                <span className="row acts">
                  <ActButton operation="change_mode" small aria-label={`Mode of ${fleet.name}`} refusal={fleet.ending ? "It is being ended." : ""} onClick={() => onMode(fleet)}>
                    Mode…
                  </ActButton>
                  <ActButton operation="delete_fleet" small tone="danger" aria-label={`End ${fleet.name}`} refusal={fleet.ending ? "It is being ended." : ""} onClick={() => onEnd(fleet)}>
                    End…
                  </ActButton>
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}

function countOf(list: unknown): number {
  return Array.isArray(list) ? list.length : 0;
}
