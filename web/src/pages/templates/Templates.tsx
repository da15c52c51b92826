import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "react-router";
import { useAddress } from "@/address";
import { libraries, MOST_TEMPLATES, templates } from "@/api/library";
import { fleets, plan } from "@/api/queries";
import { Card } from "@/components/Card";
import { Empty, Loaded, Skeleton, Warning } from "@/components/feedback";
import { Select } from "@/components/Field";
import { dollars, near, Num, Usd } from "@/components/figures";
import { NodeBill } from "@/components/NodeBill";
import { TableBox } from "@/components/TableBox";
import { Page } from "@/layout/Page";
import { front, isMixed } from "./front";
import { PlacementDrawer } from "./PlacementDrawer";
import { Scatter } from "./Scatter";

/** What can be built for a work class: what each template sustains against what it costs at least. */
export default function Templates() {
  const { template: opened } = useParams();
  const [said, say] = useAddress();
  const go = useNavigate();
  const known = useQuery(libraries());
  const finished = (known.data?.items ?? []).filter((each) => each.version).reverse();
  // Not the newest one, which anybody's `medley plan` may have built: that of a fleet's plan.
  const all = useQuery(fleets());
  const held = all.data?.find((each) => each.plan.accepted || each.plan.proposed)?.plan;
  const inForce = useQuery(plan(held?.accepted || held?.proposed || ""));
  const isSought = !said.get("library") && (all.isPending || (held !== undefined && inForce.isPending));
  const wanted = said.get("library") ?? inForce.data?.library_version;
  const library = finished.find((each) => each.version === wanted) ?? finished[0];
  const classes = library?.classes.map((each) => each.id) ?? [];
  const workClass = classes.find((each) => each === said.get("class")) ?? classes[0] ?? "";
  const found = useQuery(templates(isSought ? "" : (library?.version ?? ""), workClass));
  const open = (id: string) => go(`/templates/${id}?${said}`);
  const unit = library?.classes.find((each) => each.id === workClass)?.unit.replace("_", " ") ?? "unit";
  return (
    <Page title="Templates">
      <Loaded query={known}>
        {() =>
          isSought ? (
            <Skeleton height={360} />
          ) : library === undefined ? (
            <Empty title="Nothing has been built yet">Templates are built with a fleet's first plan: create a fleet and plan it, or run `medley templates build`.</Empty>
          ) : (
            <>
              <div className="toolbar">
                <Select label="Work class" value={workClass} onChange={(next) => say({ class: next })} options={classes} />
                <Select
                  label="Library"
                  value={library.version}
                  onChange={(next) => say({ library: next })}
                  options={finished.map((each) => ({ value: each.version, label: `${each.version.slice(0, 12)} · ${near(new Date(each.finished_at))}` }))}
                />
              </div>
              <Loaded query={found} height={360}>
                {(items) => {
                  const priced = items.filter((item) => item.usd_per_hour != null);
                  const best = front(priced);
                  return (
                    <>
                      {items.length >= MOST_TEMPLATES && (
                        <Warning>
                          The first {MOST_TEMPLATES.toLocaleString()} templates by id, a fair sample of a larger library; its front is of the sample.
                        </Warning>
                      )}
                      <Card
                        title={`${unit[0]?.toUpperCase()}${unit.slice(1)}s a second against $/h`}
                        side={
                          <div className="legend">
                            <span><i className="swatch mixed" />mixed</span>
                            <span><i className="swatch uniform" />homogeneous</span>
                            <span><i className="swatch line" />Pareto front</span>
                          </div>
                        }
                      >
                        {priced.length ? (
                          <Scatter items={priced} front={best} unit={unit} chosen={opened} choose={open} />
                        ) : (
                          <Empty compact title="No zone sells what these templates need">Their node configurations are not offered together anywhere now.</Empty>
                        )}
                        <p className="hint">
                          {items.length.toLocaleString()} templates{priced.length < items.length && `, ${(items.length - priced.length).toLocaleString()} of them not sold whole in any zone now`}. Choose one for its placement.
                        </p>
                      </Card>
                      <Card title="Pareto front: nothing gives more for less" flush>
                        <TableBox label="Pareto front">
                          <table>
                            <thead>
                              <tr>
                                <th scope="col">Template</th>
                                <th scope="col">Nodes</th>
                                <th scope="col">Kind</th>
                                <th scope="col" className="right">{unit}s/s</th>
                                <th scope="col" className="right">Least price</th>
                                <th scope="col" className="right">$ per million</th>
                              </tr>
                            </thead>
                            <tbody>
                              {best.map((item) => (
                                <tr key={item.id}>
                                  <td>
                                    <button type="button" className="link mono" onClick={() => open(item.id)}>{item.id.slice(0, 12)}</button>
                                  </td>
                                  <td><NodeBill nodes={item.nodes} /></td>
                                  <td className="muted">{isMixed(item) ? "mixed" : "homogeneous"}</td>
                                  <td className="right"><Num value={item.units_per_s} /></td>
                                  <td className="right"><Usd value={item.usd_per_hour} per="h" /></td>
                                  <td className="right num">{dollars(((item.usd_per_hour ?? 0) / item.units_per_s / 3600) * 1e6)}</td>
                                </tr>
                              ))}
                            </tbody>
                          </table>
                        </TableBox>
                      </Card>
                    </>
                  );
                }}
              </Loaded>
            </>
          )
        }
      </Loaded>
      {opened && <PlacementDrawer id={opened} onClose={() => go(`/templates?${said}`)} />}
    </Page>
  );
}
