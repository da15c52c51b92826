import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useEffect, useMemo, useRef } from "react";
import { useAddress } from "@/address";
import { type Cell, type Offer, offersOf, priceHistory } from "@/api/market";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Card } from "@/components/Card";
import { Chart } from "@/components/Chart";
import { Empty, Loaded } from "@/components/feedback";
import { Count, dollars, Percent, Time, Usd, useNow } from "@/components/figures";
import { configName } from "@/components/gpu";
import { TableBox } from "@/components/TableBox";

const DAYS = 14;

/** The offers behind one cell of the heat map, both markets side by side, and what one of them cost before. */
export function CellOffers({ cell, onClose }: { cell: Cell; onClose: () => void }) {
  const sold = useQuery(offersOf(cell.cloud, cell.region, cell.gpu));
  const own = (sold.data ?? []).filter((offer) => offer.node_config === cell.node_config);
  const [said, say] = useAddress();
  const picked = said.get("offer");
  const place = `${cell.cloud}/${cell.region}/${cell.node_config}`;
  const top = useRef<HTMLDivElement>(null);
  // They are below a map that may be longer than the window: who chose a cell is taken to them.
  useEffect(() => {
    top.current?.scrollIntoView({ block: "nearest" }); // in braces: newer browsers return a promise, which is no clean-up
  }, [place, sold.isPending]);
  const offer = own.find((each) => each.key === picked) ?? own.find((each) => each.market === cell.market);
  return (
    <div ref={top}>
    <Card
      title={`${configName(cell.node_config)} in ${cell.cloud}/${cell.region}`}
      side={
        <Button tone="ghost" small icon aria-label="Close offers" onClick={onClose}>
          <X size={14} aria-hidden />
        </Button>
      }
      flush
    >
      <Loaded query={sold}>
        {() => (
          <div className="stack">
            <TableBox label="Offers">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Offer</th>
                    <th scope="col">Market</th>
                    <th scope="col" className="right">Machine</th>
                    <th scope="col" className="right">GPU</th>
                    <th scope="col" className="right">Nodes</th>
                    <th scope="col" className="right">Success</th>
                    <th scope="col">Learned</th>
                    <th scope="col">Seen</th>
                  </tr>
                </thead>
                <tbody>
                  {own.map((each) => (
                    <tr key={each.key}>
                      <td>
                        <button type="button" className="link break" aria-pressed={each.key === offer?.key} onClick={() => say({ offer: each.key })}>
                          {each.zone} · {each.instance_type}
                        </button>
                      </td>
                      <td>
                        <Badge tone={each.market === "spot" ? "info" : "plain"}>{each.market}</Badge>
                      </td>
                      <td className="right"><Usd value={each.usd_per_hour} per="h" /></td>
                      <td className="right"><Usd value={each.usd_per_gpu_hour} per="h" /></td>
                      <td className="right"><Count value={each.available_count} none="unknown" /></td>
                      <td className="right"><Percent value={each.success_share} none="not asked" /></td>
                      <td><LearnedNote offer={each} /></td>
                      <td><Time at={each.observed_at} ago none="dated" /></td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </TableBox>
            {offer && <History offer={offer} />}
          </div>
        )}
      </Loaded>
    </Card>
    </div>
  );
}

function LearnedNote({ offer }: { offer: Offer }) {
  const now = useNow();
  const known = offer.learned;
  if (!known) return <span className="muted">–</span>;
  const until = known.since ? Date.parse(known.since) + 1000 * known.cool_down_s : 0;
  if (until > now) {
    return (
      <span title={known.reason}>
        <Badge tone="warn" dot>
          not asked until <Time at={new Date(until).toISOString()} />
        </Badge>
      </span>
    );
  }
  return (
    <span className="muted clip" title={known.reason}>
      {known.outcome} <Time at={known.at} ago />
    </span>
  );
}

function History({ offer }: { offer: Offer }) {
  const since = useMemo(() => new Date(Date.now() - DAYS * 86_400_000).toISOString(), []);
  const history = useQuery(priceHistory(offer.key, since));
  return (
    <div className="inset">
      <h3 className="break">
        {offer.key}: price of the machine over {DAYS} days
      </h3>
      <Loaded query={history} height={180}>
        {({ items }) =>
          items.length ? (
            <Chart
              label={`Price of ${offer.key}: ${items.length} changes, now ${dollars(offer.usd_per_hour)} an hour`}
              at={[...items.map((point) => Date.parse(point.observed_at)), Date.now()]}
              lines={[
                {
                  name: "$/h",
                  colour: "var(--accent)",
                  fill: true,
                  values: [...items.map((point) => point.usd_per_hour), items.at(-1)?.usd_per_hour ?? null],
                },
              ]}
              format={dollars}
              fromZero={false}
            />
          ) : (
            <Empty compact title="No history">
              The price is of the dated snapshot that ships with Medley. It is recorded from when the cloud is asked first.
            </Empty>
          )
        }
      </Loaded>
    </div>
  );
}
