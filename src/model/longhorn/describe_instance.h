// The fields that engine.cc and replica.cc describe alike. For those two files only.
//
// A volume has four of these objects, each is written at every attach and detach, and most of what Longhorn
// has in them is never set: zero fields are left out, which makes them half as large. What comes and goes
// with the process is written all the same, so that its coming and going is a change of values and not of
// fields.
#pragma once

#include "model/describe.h"
#include "model/longhorn/instance.h"

namespace moor::model::longhorn {

template <class S>
void add_instance_spec(Fields<S>& f) {
  f.omit_empty();
  f.add("volumeName", &InstanceSpec::volume_name, "Volume that this process serves.").immutable();
  f.add("volumeSize", &InstanceSpec::volume_size, "Capacity in bytes, written as a string.")
      .as_string()
      .at_least(0);
  f.add("nodeID", &InstanceSpec::node_id, "Node the process runs on.").omit_empty(false);
  f.add("image", &InstanceSpec::image, "Version of the program.");
  f.add("desireState", &InstanceSpec::desire_state, "State the process is wanted in.").omit_empty(false);
  f.add("logRequested", &InstanceSpec::log_requested, "Whether the log of the process is wanted.");
  f.add("salvageRequested", &InstanceSpec::salvage_requested,
        "Whether the process is to start from what was saved.");
  f.add("dataEngine", &InstanceSpec::data_engine, "What keeps the data.").default_to("v1");
}

template <class S>
void add_instance_status(Fields<S>& f) {
  f.omit_empty();
  f.add("ownerID", &InstanceStatus::owner_id, "Node or server that looks after the object.");
  f.add("instanceManagerName", &InstanceStatus::instance_manager_name, "Agent that runs the process.");
  f.add("currentState", &InstanceStatus::current_state, "State the process is in.").omit_empty(false);
  f.add("currentImage", &InstanceStatus::current_image, "Version of the program that runs.");
  f.add("ip", &InstanceStatus::ip, "Address of the process.").omit_empty(false);
  f.add("storageIP", &InstanceStatus::storage_ip, "Address of the process in the storage network.");
  f.add("port", &InstanceStatus::port, "Port of the process.").omit_empty(false);
  f.add("started", &InstanceStatus::started, "Whether the process has run since it was last wanted.")
      .omit_empty(false);
  f.add("logFetched", &InstanceStatus::log_fetched, "Whether the log was fetched.");
  f.add("salvageExecuted", &InstanceStatus::salvage_executed, "Whether the salvage was done.");
  f.add("conditions", &InstanceStatus::conditions, "What is observed of the process.")
      .list_map({"type"})
      .atomic_items();
}

}  // namespace moor::model::longhorn
