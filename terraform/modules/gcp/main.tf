# What all files share. What runs, and who may reach what, is drawn in the README.

data "google_compute_network" "this" {
  project = var.project_id
  name    = var.network_name
}

data "google_compute_subnetwork" "this" {
  project = var.project_id
  region  = var.region
  name    = var.subnetwork_name
}

locals {
  labels = merge(var.labels, { medley-deployment = var.name })

  api_port     = 8080
  gateway_port = 8000
  node_ports   = { hub = 7501, registry = 7502, demand = 7503 }

  # The user of the image
  uid = 10001
  # The shared files, as each process sees them
  home = "/srv/medley"

  services = toset([
    "cloudbilling.googleapis.com", "cloudresourcemanager.googleapis.com", "cloudscheduler.googleapis.com",
    "compute.googleapis.com", "file.googleapis.com", "iam.googleapis.com", "run.googleapis.com",
    "secretmanager.googleapis.com", "servicenetworking.googleapis.com", "serviceusage.googleapis.com",
    "sqladmin.googleapis.com",
  ])
}

resource "google_project_service" "this" {
  for_each = local.services

  project            = var.project_id
  service            = each.value
  disable_on_destroy = false
}
