data "medley_instances" "ready" {
  fleet  = medley_fleet.support.id
  states = ["ready"]
}

output "zones" {
  value = toset(data.medley_instances.ready.instances[*].zone)
}
