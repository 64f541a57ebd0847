import java.util.List;
import java.util.Map;

/** What to store and to ask; see support/exchanges/foreign_plan.py. */
final class Plan {
  int top_k;
  int all;
  double below;
  Point query;
  List<Long> known;
  Map<String, List<Point>> records;

  /** One record, or a query by its vectors. */
  static final class Point {
    long id;
    long base;
    String text;
    List<Float> dense;
    List<Float> small;
    List<Integer> indices;
    List<Float> values;
  }
}
