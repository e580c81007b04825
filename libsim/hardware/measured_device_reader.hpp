#pragma once

#include <nlohmann/json.hpp>

#include "libsim/config/config_node.hpp"
#include "libsim/hardware/measured_device.hpp"

namespace stagecraft {

/// Read the values of section `measured`: maps from precision to forms and grids, or op kinds and
/// costs.
void read_value(ConfigNode const& node,
                std::map<Precision, std::map<GemmForm, GemmGrid>>& measured);
void read_value(ConfigNode const& node,
                std::map<Precision, std::map<OpKind, KernelCost>>& measured);

nlohmann::ordered_json value_json(
    std::map<Precision, std::map<GemmForm, GemmGrid>> const& measured);
nlohmann::ordered_json value_json(
    std::map<Precision, std::map<OpKind, KernelCost>> const& measured);

}  // namespace stagecraft
