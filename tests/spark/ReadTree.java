import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HexFormat;
import java.util.Scanner;

/** Reads payloads in hexadecimal digits, one a line; writes what Jackson finds in each. */
public class ReadTree {
  public static void main(String[] given) {
    ObjectMapper mapper = new ObjectMapper();
    mapper.enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS);
    Scanner lines = new Scanner(System.in);
    StringBuilder written = new StringBuilder();
    while (lines.hasNextLine()) {
      written.append(found(mapper, HexFormat.of().parseHex(lines.nextLine()))).append('\n');
    }
    System.out.print(written);
  }

  private static String found(ObjectMapper mapper, byte[] payload) {
    try {
      JsonNode node = mapper.readTree(payload);
      return node == null || node.isMissingNode() ? "null" : mapper.writeValueAsString(node);
    } catch (Exception error) {
      return "bad";
    }
  }
}
