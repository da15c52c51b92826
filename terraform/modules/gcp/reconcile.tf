# One machine with an address that stays: nodes dial in to it over ZeroMQ, which no service of Cloud Run takes. It is
# restarted, and moved ahead of maintenance, by Google; while it is away, everything that runs goes on serving.

locals {
  address = var.nodes_outside ? google_compute_address.outside[0].address : google_compute_address.inside.address

  reconcile_arguments = [
    "reconcile", "--bind", "0.0.0.0", "--address", local.address,
    "--hub-port", tostring(local.node_ports.hub),
    "--registry-port", tostring(local.node_ports.registry),
    "--demand-port", tostring(local.node_ports.demand),
  ]
}

data "google_compute_image" "cos" {
  project = "cos-cloud"
  family  = "cos-stable"
}

resource "google_compute_address" "inside" {
  project      = var.project_id
  region       = var.region
  name         = "${var.name}-reconcile"
  address_type = "INTERNAL"
  subnetwork   = data.google_compute_subnetwork.this.id
  labels       = local.labels
}

resource "google_compute_address" "outside" {
  count = var.nodes_outside ? 1 : 0

  project      = var.project_id
  region       = var.region
  name         = "${var.name}-reconcile-outside"
  address_type = "EXTERNAL"
  labels       = local.labels
}

resource "google_compute_instance" "reconcile" {
  #checkov:skip=CKV_GCP_40:Only with nodes_outside, so that nodes of other clouds can report
  #checkov:skip=CKV_GCP_38:Google encrypts every disk; a key of one's own is the platform's to set as the project's default
  project                   = var.project_id
  name                      = "${var.name}-reconcile"
  zone                      = var.zone
  machine_type              = var.machine_type
  deletion_protection       = var.deletion_protection
  allow_stopping_for_update = true
  labels                    = local.labels

  metadata = {
    google-logging-enabled    = "true"
    google-monitoring-enabled = "true"
    block-project-ssh-keys    = "true"
    enable-oslogin            = "true"
    user-data = templatefile("${path.module}/reconcile.yaml.tftpl", {
      arguments           = join(" ", local.reconcile_arguments)
      database_ca_secret  = google_secret_manager_secret.this["database-ca"].id
      database_url_secret = google_secret_manager_secret.this["database-url"].id
      files_path          = local.files.path
      files_server        = local.files.server
      home                = local.home
      image               = var.image
      ports               = join(",", values(local.node_ports))
      project             = var.project_id
      registry            = split("/", var.image)[0]
      runpod_secret       = var.runpod_secret_id == null ? null : "projects/${var.project_id}/secrets/${var.runpod_secret_id}"
      skypilot            = local.skypilot
      uid                 = local.uid
    })
  }

  boot_disk {
    initialize_params {
      image = data.google_compute_image.cos.self_link
      size  = 30
      type  = "pd-balanced"
    }
  }

  attached_disk {
    source      = google_compute_disk.state.id
    device_name = "state"
  }

  network_interface {
    subnetwork = data.google_compute_subnetwork.this.id
    network_ip = google_compute_address.inside.address

    dynamic "access_config" {
      for_each = google_compute_address.outside
      content {
        nat_ip = access_config.value.address
      }
    }
  }

  service_account {
    email = google_service_account.this["reconcile"].email
    # What it may do is said by its roles.
    scopes = ["cloud-platform"]
  }

  shielded_instance_config {
    enable_secure_boot          = true
    enable_vtpm                 = true
    enable_integrity_monitoring = true
  }

  scheduling {
    automatic_restart   = true
    on_host_maintenance = "MIGRATE"
  }

  # A newer image of the system comes with the next replacement, not with any plan.
  lifecycle {
    ignore_changes = [boot_disk[0].initialize_params[0].image]
  }

  depends_on = [
    google_project_iam_member.this, google_secret_manager_secret_iam_member.reader,
    google_secret_manager_secret_version.database_url, google_sql_database.this, google_sql_user.this,
  ]
}

locals {
  # Where SkyPilot launches nodes
  skypilot = yamlencode({ gcp = { vpc_name = var.network_name, use_internal_ips = true, remote_identity = "NO_UPLOAD" } })
}
