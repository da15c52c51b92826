# Who may open a connection to whom. Networks deny what is not allowed, but for the default network's own rules.

resource "google_compute_global_address" "services" {
  count = var.create_private_services_access ? 1 : 0

  project       = var.project_id
  name          = "${var.name}-services"
  purpose       = "VPC_PEERING"
  address_type  = "INTERNAL"
  prefix_length = 20
  network       = data.google_compute_network.this.id
  depends_on    = [google_project_service.this]
}

resource "google_service_networking_connection" "services" {
  count = var.create_private_services_access ? 1 : 0

  network                 = data.google_compute_network.this.id
  service                 = "servicenetworking.googleapis.com"
  reserved_peering_ranges = [google_compute_global_address.services[0].name]
}

resource "google_compute_firewall" "nodes_report" {
  project                 = var.project_id
  name                    = "${var.name}-nodes-report"
  description             = "Nodes to hub and registry"
  network                 = data.google_compute_network.this.id
  direction               = "INGRESS"
  source_ranges           = var.node_cidrs
  target_service_accounts = [google_service_account.this["reconcile"].email]

  allow {
    protocol = "tcp"
    ports    = [tostring(local.node_ports.hub), tostring(local.node_ports.registry)]
  }

  log_config {
    metadata = "INCLUDE_ALL_METADATA"
  }
}

# Services of Cloud Run have addresses of the subnetwork.
resource "google_compute_firewall" "gateways_report" {
  project                 = var.project_id
  name                    = "${var.name}-gateways-report"
  description             = "Gateways tell what is asked of models"
  network                 = data.google_compute_network.this.id
  direction               = "INGRESS"
  source_ranges           = [data.google_compute_subnetwork.this.ip_cidr_range]
  target_service_accounts = [google_service_account.this["reconcile"].email]

  allow {
    protocol = "tcp"
    ports    = [tostring(local.node_ports.demand)]
  }
}

# Schedulers on nodes listen on any port; SkyPilot sets nodes up over SSH.
resource "google_compute_firewall" "to_nodes" {
  project                 = var.project_id
  name                    = "${var.name}-to-nodes"
  description             = "Gateways to schedulers, and SkyPilot's SSH"
  network                 = data.google_compute_network.this.id
  direction               = "INGRESS"
  source_ranges           = [data.google_compute_subnetwork.this.ip_cidr_range]
  target_service_accounts = [local.node_account]

  allow {
    protocol = "tcp"
    ports    = ["22", "1024-65535"]
  }
}

resource "google_compute_firewall" "between_nodes" {
  project                 = var.project_id
  name                    = "${var.name}-between-nodes"
  description             = "Activations and KV cache"
  network                 = data.google_compute_network.this.id
  direction               = "INGRESS"
  source_service_accounts = [local.node_account]
  target_service_accounts = [local.node_account]

  allow {
    protocol = "tcp"
    ports    = ["1024-65535"]
  }
}
