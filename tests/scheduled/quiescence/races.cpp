// The quiescence domain: what all reclaimers keep.

#include "espalier/reclaim/quiescence.hpp"

#include "scheduled/reclaimer_scenes.hpp"

namespace espalier::sim {
namespace {

ESPALIER_RECLAIMER_SCENES(quiescence, quiescence_domain, 0.4)

}  // namespace
}  // namespace espalier::sim
