# What several processes read: keys by which nodes know the control plane, the routing table, and measured step times.
# SkyPilot's state is on a disk of the reconciler's own. All else is in the database.

resource "google_filestore_instance" "this" {
  project     = var.project_id
  name        = var.name
  location    = var.zone
  tier        = "BASIC_HDD"
  description = "Medley: keys, routing table, measured step times"
  labels      = local.labels
  depends_on  = [google_service_networking_connection.services, google_project_service.this]

  file_shares {
    name        = "medley"
    capacity_gb = 1024

    nfs_export_options {
      ip_ranges   = [data.google_compute_subnetwork.this.ip_cidr_range]
      access_mode = "READ_WRITE"
      squash_mode = "NO_ROOT_SQUASH"
    }
  }

  networks {
    network      = var.network_name
    modes        = ["MODE_IPV4"]
    connect_mode = "PRIVATE_SERVICE_ACCESS"
  }
}

locals {
  files = { server = google_filestore_instance.this.networks[0].ip_addresses[0], path = "/medley" }
}

resource "google_compute_disk" "state" {
  #checkov:skip=CKV_GCP_37:Google encrypts every disk; a key of one's own is the platform's to set as the project's default
  project = var.project_id
  name    = "${var.name}-state"
  zone    = var.zone
  type    = "pd-balanced"
  size    = 20
  labels  = local.labels
}

resource "google_compute_resource_policy" "snapshots" {
  project = var.project_id
  name    = "${var.name}-state"
  region  = var.region

  snapshot_schedule_policy {
    schedule {
      daily_schedule {
        days_in_cycle = 1
        start_time    = "04:00"
      }
    }
    retention_policy {
      max_retention_days    = var.backup_retention_days
      on_source_disk_delete = "KEEP_AUTO_SNAPSHOTS"
    }
  }
}

resource "google_compute_disk_resource_policy_attachment" "snapshots" {
  project = var.project_id
  name    = google_compute_resource_policy.snapshots.name
  disk    = google_compute_disk.state.name
  zone    = var.zone
}
