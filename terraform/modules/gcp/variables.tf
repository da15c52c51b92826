variable "name" {
  description = "Begins the name of everything that is made."
  type        = string
  default     = "medley"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,13}$", var.name))
    error_message = "name must be 2 to 14 lower-case letters, digits and dashes, and begin with a letter: service accounts allow no more."
  }
}

variable "image" {
  description = "The container image of Medley (the Dockerfile of this repository) in Artifact Registry, by digest."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9.-]+-docker\\.pkg\\.dev/.+@sha256:[0-9a-f]{64}$", var.image))
    error_message = "image must be REGION-docker.pkg.dev/PROJECT/REPOSITORY/NAME@sha256:DIGEST: a tag can be moved, and two replicas could then run two releases."
  }
}

variable "project_id" {
  description = "The project that the control plane runs in, and that nodes on GCP are launched in."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id must be the id of a project, not its number or name."
  }
}

variable "region" {
  description = "Region of the control plane."
  type        = string

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region must look like us-central1."
  }
}

variable "zone" {
  description = "Zone of the reconciler and of the shared files, in that region."
  type        = string

  validation {
    condition     = startswith(var.zone, "${var.region}-") && can(regex("^[a-z]+-[a-z]+[0-9]+-[a-z]$", var.zone))
    error_message = "zone must be one of region's, such as us-central1-a."
  }
}

variable "network_name" {
  description = "Name of the VPC that the control plane runs in, and that nodes are launched in."
  type        = string

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", var.network_name))
    error_message = "network_name must be the name of a network, not its path."
  }
}

variable "subnetwork_name" {
  description = "Name of a subnetwork of it in region, with a way out through Cloud NAT and Private Google Access; 64 free addresses or more."
  type        = string

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", var.subnetwork_name))
    error_message = "subnetwork_name must be the name of a subnetwork, not its path."
  }
}

variable "create_private_services_access" {
  description = "Whether to connect the network to Google's services (Cloud SQL, Filestore). False where it is already."
  type        = bool
  default     = true
}

variable "client_cidrs" {
  description = "Who may send requests to the HTTPS load balancer: people, Terraform, and clients of models."
  type        = list(string)

  validation {
    condition     = length(var.client_cidrs) > 0 && length(var.client_cidrs) <= 10 && alltrue([for cidr in var.client_cidrs : can(cidrnetmask(cidr))])
    error_message = "client_cidrs needs 1 to 10 IPv4 ranges, such as 203.0.113.0/24: a rule of Cloud Armor takes no more."
  }
}

variable "node_cidrs" {
  description = "Where nodes are, as the control plane sees them: those of the network, and those of other clouds."
  type        = list(string)

  validation {
    condition     = length(var.node_cidrs) > 0 && alltrue([for cidr in var.node_cidrs : can(cidrnetmask(cidr))])
    error_message = "node_cidrs needs one IPv4 range or more."
  }
}

variable "nodes_outside" {
  description = "Whether nodes of other clouds reach the control plane over the internet. Every message is encrypted and authenticated (CURVE) either way. Changing it gives nodes another address: end all fleets first."
  type        = bool
  default     = false
}

variable "api_hostname" {
  description = "Host name of the admin API and the console. Point it at the output load_balancer_address."
  type        = string

  validation {
    condition     = can(regex("^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)+[a-z]{2,}$", var.api_hostname))
    error_message = "api_hostname must be a full host name in lower case, such as medley.example.com."
  }
}

variable "gateway_hostname" {
  description = "Host name of the OpenAI-compatible endpoint; another one than api_hostname."
  type        = string

  validation {
    condition     = can(regex("^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)+[a-z]{2,}$", var.gateway_hostname))
    error_message = "gateway_hostname must be a full host name in lower case, such as models.example.com."
  }

  validation {
    condition     = var.gateway_hostname != var.api_hostname
    error_message = "gateway_hostname and api_hostname must differ: the name says where a request goes."
  }
}

variable "api_replicas" {
  description = "Processes of the admin API."
  type        = number
  default     = 2

  validation {
    condition     = var.api_replicas >= 2 && var.api_replicas <= 20 && floor(var.api_replicas) == var.api_replicas
    error_message = "api_replicas must be 2 to 20: with one, a new release or a lost zone is an outage."
  }
}

variable "gateway_replicas" {
  description = "Gateways in front of the models."
  type        = number
  default     = 2

  validation {
    condition     = var.gateway_replicas >= 2 && var.gateway_replicas <= 50 && floor(var.gateway_replicas) == var.gateway_replicas
    error_message = "gateway_replicas must be 2 to 50."
  }
}

variable "machine_type" {
  description = "Machine of the reconciler: SkyPilot's server and the solver are on it."
  type        = string
  default     = "e2-standard-4"

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*-(standard|highmem|custom)-[0-9-]+$", var.machine_type))
    error_message = "machine_type must be of a standard or highmem kind, such as e2-standard-4: 4 GiB of memory are the least."
  }
}

variable "database_tier" {
  description = "Machine of the database."
  type        = string
  default     = "db-custom-2-8192"

  validation {
    condition     = can(regex("^db-(custom|perf-optimized)-", var.database_tier))
    error_message = "database_tier must begin with db-custom- or db-perf-optimized-: shared cores have no service level."
  }
}

variable "database_storage_gib" {
  description = "Storage of the database at first; it grows by itself."
  type        = number
  default     = 50

  validation {
    condition     = var.database_storage_gib >= 10 && var.database_storage_gib <= 30000
    error_message = "database_storage_gib must be 10 to 30000."
  }
}

variable "database_password_version" {
  description = "Raise it to have a new password made; processes take it at their next start (see the README)."
  type        = number
  default     = 1

  validation {
    condition     = var.database_password_version >= 1 && floor(var.database_password_version) == var.database_password_version
    error_message = "database_password_version must be a whole number from 1 on."
  }
}

variable "backup_retention_days" {
  description = "Daily backups of the database that are kept; it can be restored to any second of the last 7 days."
  type        = number
  default     = 14

  validation {
    condition     = var.backup_retention_days >= 7 && var.backup_retention_days <= 365
    error_message = "backup_retention_days must be 7 to 365."
  }
}

variable "deletion_protection" {
  description = "Whether the database, the services and the reconciler's machine refuse to be destroyed. Set it to false, apply, then destroy."
  type        = bool
  default     = true
}

variable "create_node_service_account" {
  description = "Whether to make the service account skypilot-v1 that nodes have. False where the project has one already: look at what it may do."
  type        = bool
  default     = true
}

variable "runpod_secret_id" {
  description = "Secret (Secret Manager, of this project) with a RunPod API key as its text. Null: RunPod is not used."
  type        = string
  default     = null

  validation {
    condition     = var.runpod_secret_id == null || can(regex("^[A-Za-z0-9_-]{1,255}$", var.runpod_secret_id))
    error_message = "runpod_secret_id must be the short id of a secret, never the key itself."
  }
}

variable "watch_schedule" {
  description = "When (cron, UTC) a scheduled `medley reconcile --once` looks whether anybody leads, and leads for a round if nobody does."
  type        = string
  default     = "*/15 * * * *"

  validation {
    condition     = length(split(" ", var.watch_schedule)) == 5
    error_message = "watch_schedule must have the five fields of cron, such as */15 * * * *."
  }
}

variable "labels" {
  description = "Of everything that is made and can have labels."
  type        = map(string)
  default     = {}
}
