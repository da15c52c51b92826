# Who may do what: each process has a service account of its own. Rights to price are read-only; rights to launch are those
# that SkyPilot 0.14 checks for, and what docs/clouds.md adds. The README says which call needs which.

locals {
  accounts = {
    api       = "Medley's API: reads prices"
    gateway   = "Medley's gateways: no rights"
    reconcile = "Medley's reconciler: launches nodes"
    first     = "Makes Medley's first token"
    watch     = "Starts Medley's scheduled round"
  }

  prices = ["compute.machineTypes.list", "compute.regions.list"]

  launches = [
    "compute.disks.create",
    "compute.disks.list",
    "compute.firewalls.get",
    "compute.globalOperations.get",
    "compute.instances.create",
    "compute.instances.delete",
    "compute.instances.get",
    "compute.instances.list",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setServiceAccount",
    "compute.instances.setTags",
    "compute.instances.start",
    "compute.instances.stop",
    "compute.networks.get",
    "compute.networks.getEffectiveFirewalls",
    "compute.networks.list",
    "compute.projects.get",
    "compute.subnetworks.list",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
    "compute.zoneOperations.get",
    "iam.roles.get",
    "iam.serviceAccounts.get",
    "resourcemanager.projects.get",
    "resourcemanager.projects.getIamPolicy",
    "serviceusage.services.enable",
    "serviceusage.services.list",
    "serviceusage.services.use",
  ]

  node_account = "skypilot-v1@${var.project_id}.iam.gserviceaccount.com"

  # Account → role of the project. The address of a role is written out, so that it can be a key.
  roles = merge(
    { for account in ["api", "reconcile"] : "${account} prices" => { account = account, role = google_project_iam_custom_role.prices.id } },
    { "reconcile launches" = { account = "reconcile", role = google_project_iam_custom_role.launches.id } },
    { "reconcile logs" = { account = "reconcile", role = "roles/logging.logWriter" } },
    { "reconcile images" = { account = "reconcile", role = "roles/artifactregistry.reader" } },
  )

  # Account → secret that it reads
  readers = merge(
    { for pair in setproduct(["api", "reconcile", "first"], ["database-url", "database-ca"]) :
    "${pair[0]} ${pair[1]}" => { account = pair[0], secret = google_secret_manager_secret.this[pair[1]].id } },
    var.runpod_secret_id == null ? {} : { for account in ["api", "reconcile"] :
    "${account} runpod" => { account = account, secret = "projects/${var.project_id}/secrets/${var.runpod_secret_id}" } },
  )
}

resource "google_service_account" "this" {
  for_each = local.accounts

  project      = var.project_id
  account_id   = "${var.name}-${each.key}"
  display_name = each.value
}

resource "google_project_iam_custom_role" "prices" {
  project     = var.project_id
  role_id     = "${replace(var.name, "-", "_")}_prices"
  title       = "Medley: prices"
  permissions = local.prices
}

resource "google_project_iam_custom_role" "launches" {
  project     = var.project_id
  role_id     = "${replace(var.name, "-", "_")}_launches"
  title       = "Medley: launches"
  permissions = local.launches
}

resource "google_project_iam_member" "this" {
  for_each = local.roles

  project = var.project_id
  role    = each.value.role
  member  = google_service_account.this[each.value.account].member
}

resource "google_secret_manager_secret_iam_member" "reader" {
  for_each = local.readers

  secret_id = each.value.secret
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.this[each.value.account].member
}

resource "google_secret_manager_secret_iam_member" "first_token" {
  secret_id = google_secret_manager_secret.this["first-token"].id
  role      = "roles/secretmanager.secretVersionAdder"
  member    = google_service_account.this["first"].member
}

# SkyPilot launches nothing unless the nodes' account has the rights that it launches with itself, so it gets these and
# no more. One that SkyPilot makes has roles/viewer and rights on all buckets as well.
resource "google_service_account" "node" {
  count = var.create_node_service_account ? 1 : 0

  project      = var.project_id
  account_id   = "skypilot-v1"
  display_name = "Nodes of Medley"
}

resource "google_project_iam_member" "node" {
  count = var.create_node_service_account ? 1 : 0

  project = var.project_id
  role    = google_project_iam_custom_role.launches.id
  member  = google_service_account.node[0].member
}

# Of this one account only
resource "google_service_account_iam_member" "gives_nodes_their_account" {
  service_account_id = "projects/${var.project_id}/serviceAccounts/${local.node_account}"
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.this["reconcile"].member
  depends_on         = [google_service_account.node]
}
