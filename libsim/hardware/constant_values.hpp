#pragma once

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "libsim/config/config_node.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/units/enum_names.hpp"

/// The values that a constant of a system or software file can have, read from a configuration and
/// written as JSON. Problems go to the node's diagnostics; the value is then a harmless one.
namespace stagecraft {

template <>
struct EnumNames<GradientOverlap> {
  static constexpr std::array<std::pair<GradientOverlap, std::string_view>, 3> all{
      {{GradientOverlap::never, "never"},
       {GradientOverlap::unless_sharded, "unless_sharded"},
       {GradientOverlap::always, "always"}}};
};

/// Bounds of a number of things that there are at least one of.
inline constexpr IntegerRange count_range{1, 1'000'000};
inline constexpr IntegerRange channel_range{0, 1024};
inline constexpr IntegerRange up_to_64{0, 64};
/// Bounds of an efficiency, a fraction by which a time is divided.
inline constexpr NumberRange efficiency_range{.lower = 0.001, .upper = 1, .includes_upper = true};
/// Bounds of what a time or a number of bytes is multiplied by.
inline constexpr NumberRange factor_range{.lower = 0.001, .upper = 1000, .includes_upper = true};

void read_value(ConfigNode const& node, int& value, IntegerRange range);
void read_value(ConfigNode const& node, bool& value);
void read_value(ConfigNode const& node, double& value, NumberRange range);
void read_value(ConfigNode const& node, Bytes& value);
void read_value(ConfigNode const& node, Seconds& value);
void read_value(ConfigNode const& node, BytesPerSecond& value);
void read_value(ConfigNode const& node, FlopsPerSecond& value);
/// A map from precision to rate.
void read_value(ConfigNode const& node, MatrixPeaks& peaks);
/// A map {latency, bandwidth} or {table, ranks}.
void read_value(ConfigNode const& node, CollectiveCost& cost);
/// One rate, or a map from the number of nodes to a rate.
void read_value(ConfigNode const& node, RateByNodes& rates);
/// Bytes of all devices, or a map from the least compute capability to bytes.
void read_value(ConfigNode const& node, BytesByCapability& bytes);
/// A map {bandwidth, accelerators}.
void read_value(ConfigNode const& node, HostLink& link);
/// A map {oversubscription, nodes_per_unit} or {oversubscription, leaf_ports, rails}.
void read_value(ConfigNode const& node, NetworkTopology& topology);
/// A map from kinds of ops to factors.
void read_value(ConfigNode const& node, std::map<OpKind, double>& factors, NumberRange range);
/// A map from kinds of ops to factors of all devices, or maps from the least compute capability.
void read_value(ConfigNode const& node,
                std::map<OpKind, FactorByCapability>& factors,
                NumberRange range);
void read_value(ConfigNode const& node, GradientOverlap& overlap);
void read_value(ConfigNode const& node, UnitSync& sync);
void read_value(ConfigNode const& node, LowLibrary& library);
/// A list of at least one kind.
void read_value(ConfigNode const& node, std::vector<ShardingKind>& kinds);
/// The name of a file of tables, which is not opened here.
void read_value(ConfigNode const& node, MeasuredCollectives& collectives);

nlohmann::ordered_json value_json(int value);
nlohmann::ordered_json value_json(bool value);
nlohmann::ordered_json value_json(double value);
nlohmann::ordered_json value_json(Bytes value);
nlohmann::ordered_json value_json(Seconds value);
nlohmann::ordered_json value_json(BytesPerSecond value);
nlohmann::ordered_json value_json(FlopsPerSecond value);
nlohmann::ordered_json value_json(MatrixPeaks const& peaks);
nlohmann::ordered_json value_json(CollectiveCost const& cost);
nlohmann::ordered_json value_json(RateByNodes const& rates);
nlohmann::ordered_json value_json(BytesByCapability const& bytes);
nlohmann::ordered_json value_json(HostLink const& link);
nlohmann::ordered_json value_json(NetworkTopology const& topology);
nlohmann::ordered_json value_json(std::map<OpKind, double> const& factors);
nlohmann::ordered_json value_json(std::map<OpKind, FactorByCapability> const& factors);
nlohmann::ordered_json value_json(GradientOverlap overlap);
nlohmann::ordered_json value_json(UnitSync sync);
nlohmann::ordered_json value_json(LowLibrary library);
nlohmann::ordered_json value_json(std::vector<ShardingKind> const& kinds);
nlohmann::ordered_json value_json(MeasuredCollectives const& collectives);

}  // namespace stagecraft
